"""A channel's deliveries against a dictionary."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millpond.base.errors import UnknownDeliveryTag
from millpond.queue.channel import Deliveries, Held

places = st.tuples(
    st.sampled_from(["p", "q"]), st.sampled_from(["o1", "o2", "asker"]), st.integers(0, 1)
)


class DeliveriesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.deliveries = Deliveries()
        self.deliveries.asker = "asker"
        self.deliveries.prefetch = 1_000
        self.out: dict[int, Held] = {}
        self.next = 1
        self.taken: list[dict[int, Held]] = []

    @rule(count=st.integers(1, 90), place=places, offset=st.integers(0, 2**40))
    def hand_out(self, count: int, place: tuple[str, str, int], offset: int) -> None:
        for number in range(count):
            held = Held(*place, offset + number)
            assert self.deliveries.add(held) == self.next
            self.out[self.next] = held
            self.next += 1

    @rule(count=st.integers(1, 90))
    def hand_out_what_needs_no_answer(self, count: int) -> None:
        for _number in range(count):
            assert self.deliveries.add(None) == self.next
            self.next += 1

    @rule(data=st.data(), multiple=st.booleans())
    def take(self, data: st.DataObject, multiple: bool) -> None:
        tag = data.draw(st.integers(0, self.next + 70))
        if tag == 0 and multiple:
            expected = dict(self.out)
        elif tag not in self.out:
            for verb in (self.deliveries.take, self.deliveries.meant):
                with pytest.raises(UnknownDeliveryTag):
                    verb(tag, multiple=multiple)
            return
        else:
            expected = {
                each: held
                for each, held in self.out.items()
                if each == tag or (multiple and each < tag)
            }
        assert self.deliveries.meant(tag, multiple=multiple) == list(expected)
        assert self.deliveries.take(tag, multiple=multiple) == list(expected.values())
        for each in expected:
            del self.out[each]
        self.taken.append(expected)

    @rule(data=st.data(), count=st.integers(1, 20))
    def take_one_by_one(self, data: st.DataObject, count: int) -> None:
        for _number in range(min(count, len(self.out))):
            tag = data.draw(st.sampled_from(list(self.out)))
            held = self.out.pop(tag)
            assert self.deliveries.take(tag, multiple=False) == [held]
            self.taken.append({tag: held})

    @rule()
    def roll_back(self) -> None:
        for taken in self.taken:
            self.deliveries.restore(taken)
            self.out.update(taken)
        self.out = dict(sorted(self.out.items()))
        self.forget()

    @rule()
    def forget(self) -> None:
        self.taken.clear()

    @invariant()
    def agree(self) -> None:
        asked = sum(held.owner == "asker" for held in self.out.values())
        assert len(self.deliveries) == len(self.out)
        assert self.deliveries.room == 1_000 - (len(self.out) - asked)
        assert self.deliveries.oldest == next(iter(self.out.values()), None)
        # What is kept goes with what is out.
        assert len(self.deliveries._chunks) <= len(self.out) + 1


DeliveriesMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None
)
TestDeliveries = DeliveriesMachine.TestCase


def test_what_is_out_again_stays_so_when_the_next_chunk_begins() -> None:
    deliveries, out = Deliveries(), [Held("q", "o", 0, offset) for offset in range(64)]
    tags = [deliveries.add(held) for held in out[:-1]]
    # All of a chunk is acknowledged in a transaction, which is rolled back.
    assert deliveries.take(tags[-1], multiple=True) == out[:-1]
    deliveries.restore(dict(zip(tags, out, strict=False)))
    deliveries.add(out[-1])
    assert len(deliveries) == 64
    assert deliveries.take_all() == out
