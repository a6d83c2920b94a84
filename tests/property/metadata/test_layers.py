"""A mapping that never changes, against a dictionary that does."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.layers import Layers

KEYS = range(200)
CHANGES = st.dictionaries(
    st.sampled_from(KEYS), st.none() | st.integers(0, 3), min_size=5, max_size=30
)


@given(st.lists(CHANGES, max_size=12))
def test_every_version_stays_what_it_was(batches: list[dict[int, int | None]]) -> None:
    versions: list[tuple[Layers[int, int], dict[int, int]]] = [(Layers(), {})]
    for changes in batches:
        mapping, before = versions[-1]
        model = before | {key: value for key, value in changes.items() if value is not None}
        for key in [key for key, value in changes.items() if value is None]:
            model.pop(key, None)
        versions.append((mapping.changed(changes), model))
    for mapping, model in versions:
        assert dict(mapping) == model
        assert len(mapping) == len(model)
        assert [key in mapping for key in KEYS] == [key in model for key in KEYS]


@given(st.lists(CHANGES, min_size=1, max_size=12), st.data())
def test_what_differs_is_among_what_is_named(
    batches: list[dict[int, int | None]], data: st.DataObject
) -> None:
    versions: list[Layers[int, int]] = [Layers()]
    for changes in batches:
        versions.append(versions[-1].changed(changes))
    before = data.draw(st.sampled_from(versions))
    after = data.draw(st.sampled_from(versions))
    named = list(before.differing(after))
    assert len(named) == len(set(named))
    assert {key for key in KEYS if before.get(key) != after.get(key)} <= set(named)


def test_the_order_is_that_of_coming() -> None:
    mapping: Layers[int, int] = Layers()
    for key in range(1000, 0, -1):
        mapping = mapping.changed({key: 1})
    mapping = mapping.changed({700: None}).changed({5000: 1})
    assert list(mapping) == [key for key in range(1000, 0, -1) if key != 700] + [5000]


def test_a_change_among_many_is_found_without_looking_at_all() -> None:
    before = Layers(dict.fromkeys(range(10000), 1))
    after = before.changed({5: 2, 6: None})
    assert sorted(before.differing(after)) == [5, 6]
