"""Which version of a request two nodes use: the newest that both speak, as ApiVersions says (KIP-35).

A node that has not joined yet keeps clients waiting for that answer, because they would believe a short list
for as long as they are connected. Peers need it at once: without their votes no node can join. They ask in a
version that no node has, and such a request is answered at once, in the version that all can read (KIP-511).
"""

from collections.abc import Mapping
from typing import NamedTuple

from millpond.base.errors import PeerTooOld, PeerUnreachable
from millpond.wire.kafka.api import APIS, ApiKey
from millpond.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

# What a peer speaks: the lowest and highest version of each API.
Spoken = Mapping[int, tuple[int, int]]

UNKNOWN_VERSION = 0x7FFF
_ANSWERED_IN = 0


class Versions(NamedTuple):
    """The versions of an API in which a call can be made."""

    api_key: ApiKey
    oldest: int
    newest: int

    def common(self, spoken: Spoken) -> int:
        """Return the newest that the peer speaks, too. Raises ``PeerTooOld``, ``PeerUnreachable``."""
        name = APIS[self.api_key].name
        if self.api_key not in spoken:
            raise PeerTooOld(f"its version of Millpond does not know {name}; upgrade it")
        lowest, highest = spoken[self.api_key]
        if highest < self.oldest:
            raise PeerTooOld(
                f"its version of Millpond speaks {name} up to version {highest}, and {self.oldest} is "
                "needed; upgrade it"
            )
        if lowest > self.newest:
            raise PeerUnreachable(
                f"its version of Millpond speaks {name} from version {lowest} on, and this node up to "
                f"{self.newest}; upgrade this node"
            )
        return min(self.newest, highest)


def question() -> bytes:
    """The body of a request in ``UNKNOWN_VERSION``."""
    spec = APIS[ApiKey.API_VERSIONS]
    return bytes(spec.encode_request(ApiVersionsRequest(), spec.max_version))


def spoken_in(body: memoryview) -> Spoken:
    """What the answer says. Raises ``RemoteProtocolError``."""
    answer: ApiVersionsResponse = APIS[ApiKey.API_VERSIONS].decode_response(body, _ANSWERED_IN)
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
