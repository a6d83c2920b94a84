"""Positions are written as the official connector writes them."""

from millpond.base.ids import TopicPartition
from millpond.spark.offsets import from_checkpoint, names, to_checkpoint, to_json


def test_positions_in_the_official_form_and_back() -> None:
    offsets = {
        TopicPartition("b", 0): 1,
        TopicPartition("a", 10): 2**40,
        TopicPartition("a", 9): 0,
    }

    assert to_json(offsets) == '{"a":{"9":0,"10":1099511627776},"b":{"0":1}}'
    assert from_checkpoint(to_checkpoint(offsets)) == offsets


def test_a_list_of_partitions_is_not_longer_than_people_read() -> None:
    places = [TopicPartition("t", number) for number in range(12)]

    assert names(places, at_most=2) == "t-0, t-1 and 10 more"
    assert names(places[:2]) == "t-0, t-1"
