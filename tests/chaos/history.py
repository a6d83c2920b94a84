"""What clients were promised and what they read, and whether the two go together. Pure."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

# (partition, offset, value) of each record that a poll gave, in order.
Poll: TypeAlias = Sequence[tuple[int, int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One partition's history, judged."""

    acknowledged: int
    read: int
    lost: tuple[str, ...]
    duplicated: tuple[str, ...]
    misplaced: tuple[str, ...]
    out_of_order: tuple[str, ...]
    strangers: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Nothing lost, nothing twice, nothing moved, nothing out of order, nothing unheard of."""
        faults = self.lost, self.duplicated, self.misplaced, self.out_of_order, self.strangers
        return not any(faults)


def judge(
    promised: Mapping[int, str], stored: Sequence[tuple[int, str]], *, writer: str
) -> Verdict:
    """Hold what one idempotent writer was promised (offset -> value) against what is in its partition.

    A value is the writer's name and a number that counts up; what was not acknowledged may be there or not,
    but never twice, and never out of order.
    """
    counts = Counter(value for _, value in stored)
    at = dict(stored)
    values = set(counts)
    mine = [value for _, value in stored if _number(value, writer) is not None]
    numbers = [_number(value, writer) or 0 for value in mine]
    return Verdict(
        acknowledged=len(promised),
        read=len(stored),
        lost=tuple(value for value in promised.values() if value not in values),
        duplicated=tuple(value for value, count in counts.items() if count > 1),
        misplaced=tuple(
            f"{value} was promised at {offset}"
            for offset, value in promised.items()
            if value in values and at.get(offset) != value
        ),
        out_of_order=tuple(
            f"{earlier} before {later}"
            for earlier, later in itertools.pairwise(numbers)
            if earlier > later
        ),
        strangers=tuple(value for _, value in stored if _number(value, writer) is None),
    )


def misread(polls: Iterable[Poll], stored: Mapping[int, Sequence[tuple[int, str]]]) -> list[str]:
    """What readers saw that the logs, as (offset, value) of each partition, do not bear out.

    Every value stands where it was read; within a poll a partition is read on, without a step back and
    without leaving out what is there.
    """
    logs = {partition: dict(records) for partition, records in stored.items()}
    following = {
        partition: dict(itertools.pairwise(offset for offset, _ in records))
        for partition, records in stored.items()
    }
    found = []
    for poll in polls:
        last: dict[int, int] = {}
        for partition, offset, value in poll:
            if logs[partition].get(offset) != value:
                there = logs[partition].get(offset)
                found.append(f"{partition}: {value} was read at {offset}, where {there} stands")
            before = last.get(partition)
            if before is not None and following[partition].get(before) != offset:
                found.append(f"{partition}: {offset} was read after {before}, in one poll")
            last[partition] = offset
    return found


def longest_gap_s(moments: Iterable[float], *, began: float, ended: float) -> float:
    """The longest time between two acknowledgements."""
    row = [began, *sorted(moments), ended]
    return max(later - earlier for earlier, later in itertools.pairwise(row))


def differing(logs: Mapping[int, Sequence[tuple[int, int]]]) -> str:
    """Where the logs of replicas, as (offset, checksum) of each batch, are not the same; empty if nowhere.

    A replica that was down when all stopped may be shorter; up to there it must be equal.
    """
    longest = max(logs, key=lambda node: len(logs[node]))
    model = list(logs[longest])
    for node, batches in logs.items():
        for number, batch in enumerate(batches):
            if number >= len(model) or model[number] != batch:
                other = model[number] if number < len(model) else None
                return f"batch {number} is {batch} on node {node} and {other} on node {longest}"
    return ""


def _number(value: str, writer: str) -> int | None:
    name, _, number = value.rpartition(" ")
    return int(number) if name == writer and number.isdecimal() else None
