"""EndTxnMarker message, versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)

    def __init__(
        self,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch


def encode_end_txn_marker(m: EndTxnMarker, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.coordinator_epoch))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EndTxnMarker", version, error) from error


def decode_end_txn_marker(data: memoryview, version: int) -> EndTxnMarker:
    try:
        p = 0
        (coordinator_epoch,) = _unpack_i(data, p)
        p += 4
        return EndTxnMarker(coordinator_epoch)
    except DECODE_ERRORS as error:
        raise malformed("EndTxnMarker", version, error) from None
