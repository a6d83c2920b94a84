"""The packed map of pending timers says what a dictionary would."""

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.timer.pending import Pending


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 3_000), st.integers(1, 5)),
            st.tuples(st.just("end"), st.floats(0, 1), st.integers(1, 3_000)),
        ),
        max_size=12,
    )
)
def test_it_says_what_a_dictionary_says(steps: list[tuple[str, float, int]]) -> None:
    pending, model, name, offset = Pending(), dict[int, int](), 0, 100
    for what, first, second in steps:
        if what == "add":
            for _ in range(int(first)):
                name, offset = name + second, offset + 1
                pending.add(name, offset)
                model[name] = offset
        else:
            begin = int(first * len(model))
            for gone in list(model)[begin : begin + second]:
                assert pending.remove(gone)
                assert not pending.remove(gone)
                del model[gone]
        assert len(pending) == len(model)
        assert dict(pending) == model
        for one in (*list(model)[:20], 0, name + 1):
            assert pending.get(one) == model.get(one)
            assert (one in pending) == (one in model)
