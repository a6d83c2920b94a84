"""The shapes in which a network falls apart, as Jepsen has them: pairs (from, to) that nothing passes."""

from collections.abc import Sequence
from random import Random


def halves(ids: Sequence[int], chance: Random) -> set[tuple[int, int]]:
    """Two halves that do not reach each other; one has a majority if their number is odd."""
    one = set(chance.sample(list(ids), len(ids) // 2))
    return {(a, b) for a in ids for b in ids if (a in one) != (b in one)}


def ring(ids: Sequence[int], chance: Random) -> set[tuple[int, int]]:
    """Everyone reaches its two neighbours only: of five all see a majority, and no two the same one."""
    order = chance.sample(list(ids), len(ids))
    near = {1, len(order) - 1}
    places = {node: place for place, node in enumerate(order)}
    return {
        (a, b)
        for a in ids
        for b in ids
        if a != b and (places[a] - places[b]) % len(order) not in near
    }
