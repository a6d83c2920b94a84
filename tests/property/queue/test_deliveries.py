"""A channel's deliveries against a dictionary."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millpond.base.errors import UnknownDeliveryTag
from millpond.rabbit.channel import Deliveries, Held

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
        # What was acknowledged and is not committed.
        self.aside: list[dict[int, Held]] = []

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

    @rule(data=st.data(), multiple=st.booleans(), aside=st.booleans())
    def take(self, data: st.DataObject, multiple: bool, aside: bool) -> None:
        tag = data.draw(st.integers(0, self.next + 70))
        if tag == 0 and multiple:
            expected = dict(self.out)
        elif tag not in self.out:
            for verb in (
                self.deliveries.take,
                self.deliveries.meant,
                self.deliveries.set_aside,
            ):
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
        if aside:
            assert self.deliveries.set_aside(tag, multiple=multiple) == expected
            self.aside.append(expected)
        else:
            assert self.deliveries.take(tag, multiple=multiple) == list(expected.values())
        for each in expected:
            del self.out[each]

    @rule(data=st.data(), count=st.integers(1, 20))
    def take_one_by_one(self, data: st.DataObject, count: int) -> None:
        for _number in range(min(count, len(self.out))):
            tag = data.draw(st.sampled_from(list(self.out)))
            held = self.out.pop(tag)
            assert self.deliveries.set_aside(tag, multiple=False) == {tag: held}
            self.aside.append({tag: held})

    @rule()
    def roll_back(self) -> None:
        for taken in self.aside:
            self.deliveries.restore(taken)
            self.out.update(taken)
        self.out = dict(sorted(self.out.items()))
        self.aside.clear()

    @rule()
    def commit(self) -> None:
        for taken in self.aside:
            self.deliveries.settle_aside(taken)
        self.aside.clear()

    @invariant()
    def agree(self) -> None:
        counted = [self.out, *self.aside]
        held = sum(one.owner != "asker" for some in counted for one in some.values())
        assert len(self.deliveries) == len(self.out)
        assert self.deliveries.room == 1_000 - held
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
    aside = deliveries.set_aside(tags[-1], multiple=True)
    assert list(aside.values()) == out[:-1]
    deliveries.restore(aside)
    deliveries.add(out[-1])
    assert len(deliveries) == 64
    assert deliveries.take_all() == out
