"""Our bytes mean to others what they mean to us, and others write the same bytes."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.property.wire.instances import APIS, MESSAGES, codec_of, instance
from tests.property.wire.oracles import KafkaPythonOracle, KioOracle, agree, plain

# What kio 0.6 does not have: the versions and APIs that came with Kafka 4.4. They are held against the
# table alone (test_round_trip) and, where kafka-python has them, against that.
KIO_LACKS = {
    "ApiVersions": {5},
    "TxnOffsetCommit": {6},
    "DeleteGroups": {3},
    "StreamsGroupHeartbeat": {1},
    "StreamsGroupDescribe": {1},
    "StreamsGroupTopologyDescriptionUpdate": {0},
    "UnregisterController": {0},
}

# kafka-python has the APIs that a client needs, and of these all versions but the ones of Kafka 4.4.
KAFKA_PYTHON_LACKS_VERSIONS = {"ApiVersions": {5}, "TxnOffsetCommit": {6}, "DeleteGroups": {3}}
KAFKA_PYTHON_APIS_MIN = 48

SEEDS = range(5)
EVERY_MESSAGE = pytest.mark.parametrize(
    ("name", "kind"), MESSAGES, ids=[f"{name}-{kind}" for name, kind in MESSAGES]
)
KAFKA_PYTHON_MESSAGES = [
    (name, kind)
    for name, kind in MESSAGES
    if KafkaPythonOracle.find(name, kind, APIS[name].versions.first) is not None
]


def _versions(name: str, lacking: dict[str, set[int]]) -> Iterator[int]:
    versions = APIS[name].versions
    lacks = lacking.get(name, set())
    return (v for v in range(versions.first, versions.last + 1) if v not in lacks)


def _hold_against(oracle: Any, name: str, kind: str, version: int, message: Any) -> None:
    api = APIS[name]
    encode, decode = codec_of(api, kind)
    ours = encode(message, version)
    theirs = oracle.decode(ours)
    assert agree(plain(message, api, api.messages[kind], version), oracle.plain(theirs))
    written = oracle.encode(theirs)
    assert written == ours
    assert decode(memoryview(written), version) == message


@EVERY_MESSAGE
def test_kio_agrees(name: str, kind: str) -> None:
    for version in _versions(name, KIO_LACKS):
        oracle = KioOracle.find(APIS[name].module, kind, version)
        assert oracle is not None, f"kio has no {name} {kind} v{version}: say so in KIO_LACKS"
        for seed in SEEDS:
            message = instance(name, kind, version, seed, tame=True)
            _hold_against(oracle, name, kind, version, message)


@pytest.mark.parametrize(("name", "kind"), KAFKA_PYTHON_MESSAGES, ids="-".join)
def test_kafka_python_agrees(name: str, kind: str) -> None:
    for version in _versions(name, KAFKA_PYTHON_LACKS_VERSIONS):
        oracle = KafkaPythonOracle.find(name, kind, version)
        assert oracle is not None, f"kafka-python has no {name} {kind} v{version}"
        for seed in SEEDS:
            message = instance(name, kind, version, seed, tame=True)
            if (name, kind) == ("ApiVersions", "response"):
                message.error_code = 0  # any error makes its decoder take the rest for version 0
            _hold_against(oracle, name, kind, version, message)


def test_kafka_python_is_asked_about_what_it_has() -> None:
    assert len({name for name, _ in KAFKA_PYTHON_MESSAGES}) >= KAFKA_PYTHON_APIS_MIN
