"""Ids in text as Kafka prints them: a UUID's sixteen bytes as twenty-two characters of URL-safe base64."""

import base64
import binascii
from uuid import UUID


def text_id(value: UUID) -> str:
    """The text of an id."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_id(text: str) -> UUID:
    """Read what ``text_id`` wrote; ``ValueError`` if it is not that."""
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
