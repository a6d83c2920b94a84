"""What nodes of two releases may write for each other: levels, who raises them, who is not let in."""

from collections.abc import Sequence
from typing import get_args
from uuid import UUID

import pytest

from millpond.base.errors import InvalidUpdateVersion, UnsupportedVersion
from millpond.metadata.features import (
    Direction,
    FeatureChange,
    beyond,
    decide_update_features,
    first_levels,
)
from millpond.metadata.image import Image, apply
from millpond.metadata.levels import (
    DELAYS,
    ELIGIBLE_LEADERS,
    LEVELS,
    MILLPOND_VERSION,
    NEWEST,
    SHORT_LEASES,
    check_level,
    check_topic_settings,
    level_of,
)
from millpond.metadata.records import (
    FamilyRecord,
    FeatureLevelRecord,
    FeatureLevels,
    MetadataRecord,
    RegisterBrokerRecord,
    encode_record,
)
from millpond.rabbit.family import DECLARATIONS
from millpond.rabbit.records import VirtualHost
from tests.unit.metadata.test_records import GOLDEN

QUEUES = DECLARATIONS.record(VirtualHost(name="/"))


def check(records: Sequence[MetadataRecord], features: dict[str, int]) -> None:
    check_level(records, map(encode_record, records), features)


def test_every_record_belongs_to_a_level() -> None:
    known = {type(record) for record, _ in GOLDEN} | {FamilyRecord}
    assert known == set(get_args(MetadataRecord))
    for record, _ in GOLDEN:
        assert level_of(record, encode_record(record)) == 0
    assert level_of(QUEUES, encode_record(QUEUES)) == 1
    assert max(*LEVELS.values(), ELIGIBLE_LEADERS, SHORT_LEASES) == NEWEST


def test_a_controller_writes_nothing_that_an_old_node_cannot_read() -> None:
    old = [record for record, _ in GOLDEN]
    check(old, {})
    with pytest.raises(UnsupportedVersion, match=r"level 1 of millpond.version .* is at 0"):
        check([*old, QUEUES], {"metadata.version": 30})
    check([*old, QUEUES], {"millpond.version": 1})


def registered(node: int, **levels: tuple[int, int]) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=UUID(int=node),
        broker_epoch=node,
        fenced=True,
        features=tuple(
            FeatureLevels(name=name.replace("_", "."), lowest=lowest, highest=highest)
            for name, (lowest, highest) in levels.items()
        ),
    )


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (registered(2), "Broker 2 does not support this feature"),
        (registered(2, millpond_version=(0, 0)), "Broker 2 only supports versions 0-0"),
    ],
)
def test_a_level_waits_for_the_last_old_node_even_one_that_is_away(
    old: RegisterBrokerRecord, reason: str
) -> None:
    new = registered(3, millpond_version=(0, 1))
    change = FeatureChange(name="millpond.version", level=1, direction=Direction.UPGRADE)
    image = apply(Image(), [registered(1), old, new])
    with pytest.raises(InvalidUpdateVersion, match=reason):
        decide_update_features(image, [change], node_id=1)
    image = apply(image, [registered(2, millpond_version=(0, 1))])
    image = apply(image, decide_update_features(image, [change], node_id=1))
    assert image.features["millpond.version"] == 1


def test_what_was_written_at_a_level_keeps_the_cluster_there() -> None:
    image = apply(Image(), first_levels(Image(), fresh=True))
    down = FeatureChange(name="millpond.version", level=0, direction=Direction.UNSAFE_DOWNGRADE)
    with pytest.raises(InvalidUpdateVersion, match="might delete metadata"):
        decide_update_features(image, [down], node_id=1)


def test_a_cluster_of_an_old_release_stays_at_its_level_and_a_node_alone_does_not() -> None:
    old = apply(Image(), [FeatureLevelRecord(name="metadata.version", feature_level=30)])
    names = {one.name for one in first_levels(old, fresh=False)}
    assert "millpond.version" not in names
    [level] = [
        one
        for one in first_levels(old, fresh=False, is_alone=True)
        if one.name == "millpond.version"
    ]
    assert level.feature_level == NEWEST
    at_newest = apply(old, [level])
    names = {one.name for one in first_levels(at_newest, fresh=False, is_alone=True)}
    assert "millpond.version" not in names


@pytest.mark.parametrize(
    ("name", "level"), [("millpond.version", NEWEST + 1), ("of.the.future", 1)]
)
def test_metadata_of_a_newer_release_are_left_alone(name: str, level: int) -> None:
    image = apply(Image(), first_levels(Image(), fresh=True))
    assert beyond(image) is None
    image = apply(image, [FeatureLevelRecord(name=name, feature_level=level)])
    assert f"at level {level} of {name}" in (beyond(image) or "")


def test_delays_need_their_level() -> None:
    wanted = {"millpond.delay.enable": "true"}
    for level in range(DELAYS):
        with pytest.raises(UnsupportedVersion, match="millpond cluster upgrade"):
            check_topic_settings(wanted, {MILLPOND_VERSION: level})
    check_topic_settings(wanted, {MILLPOND_VERSION: DELAYS})
    check_topic_settings({"millpond.delay.enable": "false"}, {})
    check_topic_settings({}, {})
