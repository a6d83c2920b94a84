"""Further routing keys in a message's headers."""


def copies(value: object) -> list[str]:
    """The keys in a ``CC`` or ``BCC`` header."""
    return [str(key) for key in value] if isinstance(value, list) else []
