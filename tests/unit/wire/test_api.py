"""The table of APIs beside what others say of them."""

import subprocess
import sys

import pytest
from kio.schema import errors as kio_errors
from kio.schema.index import api_key_map

from millpond.wire.kafka.api import (
    APIS,
    REFRESH_METADATA,
    RETRIABLE,
    ApiKey,
    ErrorCode,
    request_header_version,
    response_header_version,
)


def test_every_api_of_kafka_is_here() -> None:
    assert api_key_map.keys() <= APIS.keys()
    assert {key: APIS[key].name for key in (0, 1, 3, 18, 68, 78, 94)} == {
        0: "Produce",
        1: "Fetch",
        3: "Metadata",
        18: "ApiVersions",
        68: "ConsumerGroupHeartbeat",
        78: "ShareFetch",
        94: "UnregisterController",
    }
    assert set(ApiKey) == set(APIS)


# Kafka 4.x, as its own table has it.
@pytest.mark.parametrize(
    ("key", "first", "last", "flexible"),
    [
        (ApiKey.PRODUCE, 3, 13, 9),
        (ApiKey.FETCH, 4, 18, 12),
        (ApiKey.LIST_OFFSETS, 1, 11, 6),
        (ApiKey.METADATA, 0, 13, 9),
        (ApiKey.OFFSET_COMMIT, 2, 10, 8),
        (ApiKey.JOIN_GROUP, 0, 9, 6),
        (ApiKey.SASL_HANDSHAKE, 0, 1, None),
        (ApiKey.OFFSET_DELETE, 0, 0, None),
        (ApiKey.API_VERSIONS, 0, 5, 3),
        (ApiKey.CREATE_TOPICS, 2, 7, 5),
        (ApiKey.SHARE_FETCH, 1, 2, 0),
        (ApiKey.VOTE, 0, 2, 0),
    ],
)
def test_versions(key: ApiKey, first: int, last: int, flexible: int | None) -> None:
    spec = APIS[key]
    assert (spec.min_version, spec.max_version, spec.flexible_from) == (first, last, flexible)


def test_a_version_that_kafka_calls_unstable_is_known_but_said_to_be() -> None:
    assert APIS[ApiKey.INIT_PRODUCER_ID].max_version == 6
    assert APIS[ApiKey.INIT_PRODUCER_ID].stable_version == 5
    assert all(
        spec.stable_version == spec.max_version
        for spec in APIS.values()
        if spec.key is not ApiKey.INIT_PRODUCER_ID
    )


def test_header_versions() -> None:
    assert request_header_version(ApiKey.FETCH, 11) == 1
    assert request_header_version(ApiKey.FETCH, 12) == 2
    assert response_header_version(ApiKey.FETCH, 11) == 0
    assert response_header_version(ApiKey.FETCH, 12) == 1
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    # The exception: its answer must be readable by those who know nothing yet.
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert response_header_version(ApiKey.API_VERSIONS, 3) == 0


def test_error_codes() -> None:
    others = {code.value for code in kio_errors.ErrorCode}
    assert others <= {int(code) for code in ErrorCode}
    assert ErrorCode(-1).name == "UNKNOWN_SERVER_ERROR"
    assert ErrorCode(35).name == "UNSUPPORTED_VERSION"
    assert ErrorCode(136).name == "CONTROLLER_ID_NOT_REGISTERED"
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in REFRESH_METADATA <= RETRIABLE
    assert ErrorCode.TOPIC_ALREADY_EXISTS not in RETRIABLE
    for code in kio_errors.ErrorCode:
        if code.value > 0:
            assert code.retriable == (ErrorCode(code.value) in RETRIABLE), code


def test_messages_are_imported_on_first_use() -> None:
    """The table alone must not cost a broker's start the import of ninety modules."""
    program = (
        "import sys, millpond.wire.kafka.connection;"
        "print(sum(name.startswith('millpond.wire.kafka.messages.') for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "1", "only the index"
