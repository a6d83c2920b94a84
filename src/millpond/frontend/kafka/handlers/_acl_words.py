"""The numbers of ACLs that mean something; a request with any other is no request (as in Kafka)."""

from millpond.base.errors import RemoteProtocolError
from millpond.wire.kafka.api import ErrorCode

# There is no authorizer, so there are no rules to list or to change.
NO_AUTHORIZER = ErrorCode.SECURITY_DISABLED
NO_AUTHORIZER_MESSAGE = "No Authorizer is configured."

_RESOURCES = range(1, 8)  # any, topic, group, cluster, transactional id, delegation token, user
_PATTERNS = range(1, 5)  # any, match, literal, prefixed
_OPERATIONS = range(1, 16)
_PERMISSIONS = range(1, 4)  # any, deny, allow


def check(resource_type: int, pattern_type: int, operation: int, permission: int) -> None:
    """Raise ``RemoteProtocolError`` unless all four are known."""
    if not (
        resource_type in _RESOURCES
        and pattern_type in _PATTERNS
        and operation in _OPERATIONS
        and permission in _PERMISSIONS
    ):
        raise RemoteProtocolError(
            "an ACL with an unknown resource, pattern, operation or permission"
        )
