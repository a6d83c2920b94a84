"""Further routing keys in a message's headers."""

from millpond.base.fields import LongString


def copies(value: object) -> list[str]:
    """The keys in a ``CC`` or ``BCC`` header; what is no text there is no key."""
    if not isinstance(value, list):
        return []
    return [_text(key) for key in value if isinstance(key, (str, LongString))]


def _text(key: str | LongString) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")
