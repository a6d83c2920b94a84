"""Java's properties syntax, case by case."""

import pytest

from millpond.base.errors import InvalidConfig
from millpond.server.properties import Property, read_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in read_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a = b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a : b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a\tb c", [("a", "b c")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("  a=b  ", [("a", "b  ")]),
        ("a==b", [("a", "=b")]),
        ("a=b=c:d", [("a", "b=c:d")]),
        ("# no\n! no\n\n  # no\na=b", [("a", "b")]),
        ("a=b#not a comment", [("a", "b#not a comment")]),
        ("a=one,\\\n   two,\\\n   three", [("a", "one,two,three")]),
        ("a=b\\\n# part of the value", [("a", "b# part of the value")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\n", [("a", "b")]),
        ("a=b\\", [("a", "b")]),
        ("a\\=b=c", [("a=b", "c")]),
        ("a\\ b=c", [("a b", "c")]),
        ("a\\:b:c", [("a:b", "c")]),
        ("a=\\u0041\\u00e9", [("a", "Aé")]),
        ("a=\\ud83d\\ude00", [("a", "😀")]),
        ("a=x\\ty\\nz\\q", [("a", "x\ty\nzq")]),
        ("path=c\\:\\\\temp", [("path", "c:\\temp")]),
        ("a=1\r\nb=2\rc=3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("", []),
        ("\\\n", []),
    ],
)
def test_reading(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_the_line_is_where_the_property_starts() -> None:
    assert read_properties("# one\n\na=1,\\\n2\nb=3") == [
        Property("a", "1,2", 3),
        Property("b", "3", 5),
    ]


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u=b"])
def test_a_broken_escape_is_named_with_its_line(text: str) -> None:
    with pytest.raises(InvalidConfig, match="line 1"):
        read_properties(text)
