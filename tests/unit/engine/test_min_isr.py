"""One min.insync.replicas counts in a cluster: what says something else is named in the log."""

import pytest

from millpond.engine.cluster.min_isr import OwnMinIsr, log_one_min_isr
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.elections import decide_one_min_isr, rules_of
from millpond.metadata.image import Image, apply
from millpond.metadata.records import RESOURCE_BROKER, ConfigRecord
from tests.support.cluster.cluster_facts import KEEPS_ELIGIBLE


def value(text: str, name: str = "") -> ConfigRecord:
    return ConfigRecord(
        resource_type=RESOURCE_BROKER,
        resource_name=name,
        name="min.insync.replicas",
        value=text,
    )


def test_values_of_single_nodes_that_go_are_named(caplog: pytest.LogCaptureFixture) -> None:
    image = apply(Image(), [*KEEPS_ELIGIBLE, value("3", "2"), value("1", "4")])
    records = decide_one_min_isr(image, lambda after: rules_of(after, BrokerConfig()))
    log_one_min_isr(image, records)
    assert "node 2: 3, node 4: 1" in caplog.text
    caplog.clear()
    log_one_min_isr(image, [value("2")])
    assert caplog.text == ""


def test_a_file_that_differs_is_named_once_for_each_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = OwnMinIsr(7, lambda: BrokerConfig({"min.insync.replicas": 2}))
    image = apply(Image(), [value("1")])
    own.look(image)  # each node goes by its own while eligible leaders are not kept
    assert caplog.text == ""
    image = apply(image, KEEPS_ELIGIBLE)
    own.look(image)
    own.on_change(image, image)
    (record,) = caplog.records
    assert "min.insync.replicas=2 in the settings file of node 7 has no effect: 1" in record.message
    caplog.clear()
    own.look(apply(image, [value("2")]))
    assert caplog.text == ""
    own.look(apply(image, [value("3")]))
    assert len(caplog.records) == 1


def test_a_file_that_says_nothing_differs_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    OwnMinIsr(7, BrokerConfig).look(apply(Image(), [*KEEPS_ELIGIBLE, value("3")]))
    assert caplog.text == ""
