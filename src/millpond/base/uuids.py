"""UUIDs in Kafka's text form: sixteen bytes as twenty-two characters of URL-safe base64."""

import base64
import binascii
from uuid import UUID


def text_id(value: UUID) -> str:
    """Return the text form of a UUID."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_id(text: str) -> UUID:
    """Parse the text form of a UUID. Raises ``ValueError``."""
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
