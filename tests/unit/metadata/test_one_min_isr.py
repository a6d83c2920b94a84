"""With eligible leaders there is one ``min.insync.replicas`` for the cluster (KIP-966), and it stays."""

import pytest

from millpond.metadata.configs import BrokerConfig
from millpond.metadata.controller import (
    AlterConfigs,
    AlterOp,
    OneForTheCluster,
    decide_alter_configs,
)
from millpond.metadata.elections import Rules, decide_one_min_isr, rules_of
from millpond.metadata.features import ELIGIBLE_LEADER_REPLICAS, MIN_ISR_SETTING
from millpond.metadata.image import Image, apply
from millpond.metadata.levels import ELIGIBLE_LEADERS, MILLPOND_VERSION
from millpond.metadata.records import RESOURCE_BROKER, ConfigRecord, FeatureLevelRecord


def image(level: int = 1, **min_isr: str) -> Image:
    """``of_2="3"`` is what node 2 was given, ``of_="3"`` what all were."""
    return apply(
        Image(),
        [
            FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=ELIGIBLE_LEADERS),
            FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=level),
            *(
                ConfigRecord(
                    resource_type=RESOURCE_BROKER,
                    resource_name=whom.removeprefix("of_"),
                    name=MIN_ISR_SETTING,
                    value=value,
                )
                for whom, value in min_isr.items()
            ),
        ],
    )


def settled(before: Image, own: int = 2) -> Image:
    def rules(now: Image) -> Rules:
        return rules_of(now, BrokerConfig({MIN_ISR_SETTING: own}))

    return apply(before, decide_one_min_isr(before, rules))


def of(now: Image, whom: str = "") -> str | None:
    return now.config_of(RESOURCE_BROKER, whom).get(MIN_ISR_SETTING)


def altered(
    now: Image, whom: str, *operations: tuple[str, AlterOp, str | None], replace: bool = False
) -> tuple[Image, Exception | None]:
    command = AlterConfigs(
        resource_type=RESOURCE_BROKER,
        resource_name=whom,
        operations=operations,
        replace=replace,
    )
    decision = decide_alter_configs(
        now, [command], node_id=2, effective=lambda _kind, _name, _setting: None
    )
    return apply(now, decision.records), decision.results[0].error


def test_the_cluster_gets_what_its_controller_was_started_with() -> None:
    assert of(settled(image())) == "2"
    assert of(settled(image(of_="3"))) == "3"
    assert of(settled(image(level=0))) is None


def test_what_single_nodes_were_given_goes() -> None:
    after = settled(image(of_2="1"))
    assert (of(after), of(after, "2")) == ("2", None)
    assert settled(after) == after


def test_it_is_not_altered_for_one_node() -> None:
    for operation in (
        (MIN_ISR_SETTING, AlterOp.SET, "1"),
        (MIN_ISR_SETTING, AlterOp.DELETE, None),
    ):
        after, error = altered(image(of_="3"), "2", operation)
        assert isinstance(error, OneForTheCluster)
        assert after == image(of_="3")
    assert altered(image(level=0), "2", (MIN_ISR_SETTING, AlterOp.SET, "1"))[1] is None


@pytest.mark.parametrize("level", [0, 1])
def test_it_is_altered_for_all_and_not_removed(level: int) -> None:
    before = image(level, of_="3")
    after, error = altered(before, "", (MIN_ISR_SETTING, AlterOp.SET, "4"))
    assert (of(after), error) == ("4", None)
    after, error = altered(before, "", (MIN_ISR_SETTING, AlterOp.DELETE, None))
    assert of(after) == ("3" if level else None)
    assert isinstance(error, OneForTheCluster) == bool(level)
    after, error = altered(before, "", ("log.retention.ms", AlterOp.SET, "9"), replace=True)
    assert of(after) == ("3" if level else None)
    assert isinstance(error, OneForTheCluster) == bool(level)
