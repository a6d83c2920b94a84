"""A query's progress on its way to a group."""

from collections.abc import Mapping

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.spark.committer import Committer, end_offsets

A = TopicPartition("a", 0)


def test_end_offsets_of_all_sources_in_the_connectors_form() -> None:
    found = end_offsets(
        ['{"a":{"0":5}}', None, '{"b": {"1": 7}}', "42", '{"logOffset":3}', "null", "x"]
    )

    assert found == {A: 5, TopicPartition("b", 1): 7}


def test_positions_are_committed_in_order_and_a_refusal_is_no_end() -> None:
    committed: list[int] = []

    def commit(offsets: Mapping[TopicPartition, int]) -> None:
        if offsets[A] == 2:
            raise MillpondError("not now")
        committed.append(offsets[A])

    committer = Committer(commit, "etl")
    for offset in (1, 2, 3):
        committer.put({A: offset})
    committer.put({})
    committer.flush()
    committer.close()

    assert committed == [1, 3]
