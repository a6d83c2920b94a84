"""Routing against the simplest thing that could be right: look at every binding."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import InvalidBinding
from millpond.base.fields import Table
from millpond.rabbit.exchange_types import EXCHANGE_TYPES, DirectTable, Registry, Routed
from millpond.rabbit.names import Resource
from millpond.rabbit.records import Binding, Exchange
from millpond.rabbit.routing import Router
from millpond.routing.headers import HeadersTable, frozen
from millpond.routing.topic_tree import TopicTrie, words_of

words = st.sampled_from(["a", "b", "c", ""])
keys = st.lists(words, max_size=5).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "c", "*", "#", ""]), max_size=6).map(".".join)


def agrees(pattern: list[str], key: list[str]) -> bool:
    if not pattern:
        return not key
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return any(agrees(rest, key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and first in ("*", key[0]) and agrees(rest, key[1:])


@given(st.lists(st.tuples(patterns, st.integers(0, 9)), max_size=20), st.lists(keys, max_size=5))
def test_topics_match_as_one_by_one(bound: list[tuple[str, int]], asked: list[str]) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, target in bound:
        trie.add(pattern, target)
    for key in asked:
        expected = {t for pattern, t in bound if agrees(words_of(pattern), words_of(key))}
        assert set(trie.match(key)) == expected


@given(st.lists(st.tuples(patterns, st.integers(0, 3)), max_size=20), st.data(), keys)
def test_topics_forget_what_is_removed(
    bound: list[tuple[str, int]], data: st.DataObject, key: str
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, target in bound:
        trie.add(pattern, target)
    left = list(bound)
    for _removal in range(data.draw(st.integers(0, len(bound)))):
        gone = left.pop(data.draw(st.integers(0, len(left) - 1)))
        trie.remove(*gone)
    expected = {t for pattern, t in left if agrees(words_of(pattern), words_of(key))}
    assert set(trie.match(key)) == expected
    for gone in left:
        trie.remove(*gone)
    assert trie.is_empty


def test_many_hashes_cost_little() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add(".".join(["#", "a"] * 30), 1)
    assert list(trie.match(".".join(["a"] * 200))) == [1]
    assert not list(trie.match(".".join(["a"] * 200 + ["b"])))


header_values = st.sampled_from([1, 1.0, True, "1", b"1", None, [1], {"n": 1}])
header_names = st.sampled_from(["a", "b", "x-a", "x-b", ""])
tables = st.dictionaries(header_names, header_values, max_size=3)
modes = st.sampled_from([None, "any", "all", "any-with-x", "all-with-x"])


def headers_agree(mode: str | None, wanted: Table, headers: Table) -> bool:
    with_x = mode is not None and mode.endswith("-with-x")
    pairs = {name: value for name, value in wanted.items() if with_x or name[:2] != "x-"}
    found = [
        name in headers and (value is None or frozen(headers[name]) == frozen(value))
        for name, value in pairs.items()
    ]
    return any(found) if mode is not None and mode.startswith("any") else all(found)


@given(st.lists(st.tuples(modes, tables), max_size=8), tables, st.data())
def test_headers_match_as_one_by_one(
    bound: list[tuple[str | None, Table]], headers: Table, data: st.DataObject
) -> None:
    table: HeadersTable[int] = HeadersTable()
    numbers = []
    for target, (mode, wanted) in enumerate(bound):
        arguments = dict(wanted) if mode is None else {**wanted, "x-match": mode}
        numbers.append(table.add(arguments, target))
    kept = set(range(len(bound)))
    if bound:
        gone = data.draw(st.integers(0, len(bound) - 1))
        table.remove(numbers[gone])
        kept.discard(gone)
    expected = {target for target in kept if headers_agree(*bound[target], headers)}
    assert set(table.match(headers)) == expected


def test_bindings_that_share_headers_cost_a_message_no_more_than_one() -> None:
    table: HeadersTable[int] = HeadersTable()
    for user in range(1_000):
        table.add({"type": "order", "region": user % 30, "user": user}, user)
        table.add({"type": "order", "site": user % 10, "line": user // 10}, user)
        table.add({"type": "order", f"only-{user}": None}, user)
    message: Table = {"type": "order", "region": 7, "user": 37, "site": 3, "line": 5, "only-9": 1}
    assert sorted(table.match(message)) == [9, 37, 53]
    # The shape that was first may be filed where all the others would be.
    assert len(list(table.shapes(message))) <= 4


def test_values_are_equal_as_rabbitmq_sees_it() -> None:
    assert len({frozen(value) for value in (1, 1.0, True, "1")}) == 4
    assert frozen("1") == frozen(b"1")


# --- exchanges bound to exchanges -----------------------------------------------------------------------

names = st.sampled_from(["d", "f", "t", "g"])
types = {"d": "direct", "f": "fanout", "t": "topic", "g": "fanout"}
bindings = st.builds(
    Binding,
    vhost=st.just("/"),
    source=names,
    destination=st.sampled_from(["d", "f", "t", "g", "q1", "q2", "q3"]),
    routing_key=st.sampled_from(["a", "b", "#", "*"]),
).map(
    lambda one: Binding(
        vhost="/",
        source=one.source,
        destination=one.destination,
        to_queue=one.destination.startswith("q"),
        routing_key=one.routing_key,
    )
)
alternates = st.dictionaries(names, names, max_size=3)


def naive_route(
    exchange: str, keys: tuple[str, ...], bound: list[Binding], alternate: dict[str, str]
) -> set[str]:
    seen, pending, queues = set[str](), [exchange], set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        targets = [
            one
            for one in bound
            if one.source == name
            and any(
                types[name] == "fanout"
                or (types[name] == "direct" and one.routing_key == key)
                or (types[name] == "topic" and agrees(words_of(one.routing_key), words_of(key)))
                for key in keys
            )
        ]
        queues |= {one.destination for one in targets if one.to_queue}
        pending += [one.destination for one in targets if not one.to_queue]
        if not targets and name in alternate:
            pending.append(alternate[name])
    return queues


@given(
    st.lists(bindings, max_size=14, unique_by=lambda one: one.identity),
    alternates,
    st.lists(st.tuples(names, st.sampled_from([("a",), ("b",), ("a", "b")])), max_size=4),
    st.data(),
)
def test_each_queue_gets_a_message_once_whatever_the_paths(
    bound: list[Binding],
    alternate: dict[str, str],
    asked: list[tuple[str, tuple[str, ...]]],
    data: st.DataObject,
) -> None:
    router = Router("/", EXCHANGE_TYPES)
    for name, kind in types.items():
        router.add_exchange(Exchange(vhost="/", name=name, type=kind))
        router.set_alternate(name, alternate.get(name))
    for queue in ("q1", "q2", "q3"):
        router.add_queue(queue)
    for one in bound:
        router.add_binding(one)
    for _twice in range(2):
        for name, routing_keys in asked:
            found = router.route(name, Routed(routing_keys))
            assert len(set(found)) == len(found)
            assert set(found) == naive_route(name, routing_keys, bound, alternate)
        if bound:
            gone = bound.pop(data.draw(st.integers(0, len(bound) - 1)))
            router.remove_binding(gone)


# --- types that choose one --------------------------------------------------------------------------------


def bound_to(router: Router, exchange: str, weights: dict[str, str]) -> None:
    for queue, weight in weights.items():
        router.add_queue(queue)
        router.add_binding(
            Binding(vhost="/", source=exchange, destination=queue, routing_key=weight)
        )


def test_consistent_hashing_shares_by_weight_and_moves_little() -> None:
    router = Router("/", EXCHANGE_TYPES)
    router.add_exchange(Exchange(vhost="/", name="h", type="x-consistent-hash"))
    bound_to(router, "h", {"q1": "1", "q2": "1", "q3": "2"})
    before = {n: router.route("h", Routed((str(n),))) for n in range(4000)}
    assert all(len(found) == 1 for found in before.values())
    share = sum(found == ("q3",) for found in before.values())
    assert 1800 < share < 2200
    bound_to(router, "h", {"q4": "1"})
    after = {n: router.route("h", Routed((str(n),))) for n in range(4000)}
    assert all(after[n] in (before[n], ("q4",)) for n in before)


def test_hashing_by_header_and_by_lot() -> None:
    router = Router("/", EXCHANGE_TYPES)
    by_user: Table = {"hash-header": "user"}
    router.add_exchange(Exchange(vhost="/", name="h", type="x-consistent-hash", arguments=by_user))
    bound_to(router, "h", {"q1": "1", "q2": "1"})
    for user in ("ann", "bob", "eve"):
        assert len({router.route("h", Routed((key,), {"user": user})) for key in "abcdef"}) == 1
    router.add_exchange(Exchange(vhost="/", name="r", type="x-random"))
    bound_to(router, "r", {"q1": "k", "q2": "l"})
    assert {router.route("r", Routed(("",), chance=n)) for n in range(4)} == {("q1",), ("q2",)}
    router.add_exchange(Exchange(vhost="/", name="l", type="x-local-random"))
    bound_to(router, "l", {"q1": "", "q2": ""})
    assert {router.route("l", Routed(("any",), chance=n)) for n in range(4)} == {("q1",), ("q2",)}
    with pytest.raises(InvalidBinding, match="Non empty binding 'k' key not permitted"):
        EXCHANGE_TYPES["x-local-random"].check_binding("k", {}, {})
    router.add_exchange(Exchange(vhost="/", name="m", type="x-modulus-hash"))
    bound_to(router, "m", {"q1": "", "q2": ""})
    assert len({router.route("m", Routed((str(n),))) for n in range(50)}) == 2


# --- a type of one's own ----------------------------------------------------------------------------------


class LongestPrefixTable(DirectTable):
    """Only the binding whose key is the longest beginning of the message's."""

    def match(self, message: Routed) -> Iterator[Resource]:
        key = message.routing_keys[0]
        for length in range(len(key), -1, -1):
            targets = list(super().match(Routed((key[:length],))))
            if targets:
                return iter(targets)
        return iter(())


class LongestPrefix:
    name = "x-longest-prefix"
    by_key_only = True

    def check_arguments(self, arguments: Table) -> None:
        pass

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        pass

    def make_table(self, arguments: Table) -> LongestPrefixTable:
        return LongestPrefixTable()


def test_a_type_of_ones_own_routes_as_it_likes() -> None:
    router = Router("/", Registry(LongestPrefix()))
    router.add_exchange(Exchange(vhost="/", name="x", type="x-longest-prefix"))
    bound_to(router, "x", {"europe": "+4", "germany": "+49", "rest": "+"})
    assert router.route("x", Routed(("+4930",))) == ("germany",)
    assert router.route("x", Routed(("+4420",))) == ("europe",)
    assert router.route("x", Routed(("+1",))) == ("rest",)
    assert router.route("x", Routed(("0",))) == ()
