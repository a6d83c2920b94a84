"""The pattern of a message: the message without its variable parts.

``timeout after 3012 ms talking to 10.0.0.7`` and the same with other numbers have one pattern. It is made by
regular expressions that run inside Spark; nothing is done record by record in Python.
"""

from millpond.spark.pipelines.spark_names import Column, sf

# In this order: longer and more specific parts are replaced before those that could be a part of them. Groups
# are repeated possessively: Java would recurse for every repetition and overflow the stack.
_RULES = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++", "<email>"),
    (r"https?://[^\s\"']+", "<url>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
    (r"\"[^\"]*+\"|'[^']*+'", "<text>"),
    (r"\b0x[0-9a-fA-F]++\b|\b(?=[a-fA-F]*+\d)[0-9a-fA-F]{8,}+\b", "<hex>"),
    (r"(?<![\w.<])(?:/[\w.@%+=~-]++){2,}+/?", "<path>"),
    (r"\d++(?:[.,]\d++)*+", "<n>"),
    (r"\s++", " "),
)
LENGTH_MAX = 200  # beyond this, messages differ by their data, not by their cause
LOOKED_AT_MAX = (
    4000  # characters of a message; anything after them could hardly be among the first 200
)


def signature(message: Column | str) -> Column:
    """Return the pattern of a message's first line."""
    found = sf.col(message) if isinstance(message, str) else message
    found = sf.substring(sf.substring_index(found, "\n", 1), 1, LOOKED_AT_MAX)
    for expression, name in _RULES:
        found = sf.regexp_replace(found, expression, name)
    return sf.substring(sf.trim(found), 1, LENGTH_MAX)
