"""DefaultPrincipalData message, versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    pack_compact_string,
    read_compact_string,
    skip_tags,
    unencodable,
)

_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated")

    def __init__(
        self,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated


def encode_default_principal_data(m: DefaultPrincipalData, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.type))
        add(pack_compact_string(m.name))
        add(_pack_o(m.token_authenticated))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DefaultPrincipalData", version, error) from error


def decode_default_principal_data(data: memoryview, version: int) -> DefaultPrincipalData:
    try:
        p = 0
        type, p = read_compact_string(data, p)
        name, p = read_compact_string(data, p)
        token_authenticated = data[p] != 0
        p += 1
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DefaultPrincipalData(type, name, token_authenticated)
    except DECODE_ERRORS as error:
        raise malformed("DefaultPrincipalData", version, error) from None
