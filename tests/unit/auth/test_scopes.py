"""What scopes allow: rights, wildcards, percent signs, routing keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.auth.permissions import Right
from millpond.auth.scopes import _agrees, allows_vhost, check_grants, check_topic_grants, parsed
from millpond.base.errors import AccessRefused
from millpond.rabbit.broker import Broker
from millpond.rabbit.commands import Principal
from millpond.rabbit.declare import check_right
from millpond.rabbit.names import exchange_of, queue_of


def may(scope: str, right: Right, name: str, vhost: str = "/") -> bool:
    try:
        check_grants((scope,), "ann", queue_of(vhost, name), right, is_expired=False)
    except AccessRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("read:%2F/orders", "orders"),
        ("read:*/*", "orders"),
        ("read:%2f/or*", "orders"),
        ("read:%2F/*ers", "orders"),
        ("read:%2F/o*s", "orders"),
        ("read:%2F/*rd*r*", "orders"),
        ("read:%2F/foo*bar", "foobarxbar"),
        ("read:%2F/a%2Fb", "a/b"),
        ("read:%2F/a%2Ab", "a*b"),
        ("read:%2F/two+words", "two words"),
        ("read:%2F/orders/key", "orders"),
        ("read:%2F/", ""),
    ],
)
def test_what_agrees(scope: str, name: str) -> None:
    assert may(scope, Right.READ, name)


@pytest.mark.parametrize("vhost", ["/", "shop", "a*b", "50%"])
def test_a_scope_can_name_the_virtual_host_somebody_is_in(vhost: str) -> None:
    assert may("read:{vhost}/*", Right.READ, "orders", vhost)
    assert may("read:*/{vhost}-*", Right.READ, f"{vhost}-orders", vhost)
    assert not may("read:*/{vhost}-*", Right.READ, "other-orders", vhost)
    assert allows_vhost(("read:{vhost}/x",), vhost)
    # What is written with a percent sign is text.
    assert not may("read:*/%7Bvhost}", Right.READ, vhost, vhost)
    assert may("read:*/%7Bvhost}", Right.READ, "{vhost}", vhost)


def test_the_name_of_a_virtual_host_is_no_pattern() -> None:
    assert not may("read:*/{vhost}", Right.READ, "anything", "*")
    assert may("read:*/{vhost}", Right.READ, "*", "*")


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("read:%2F/orders", "orders2"),
        ("read:%2F/or*", "fjord"),
        ("read:%2F/a*a", "a"),
        ("read:%2F/a%2Ab", "axb"),
        ("write:%2F/orders", "orders"),
        ("configure:%2F/*", "orders"),
        ("read:other/*", "orders"),
        ("read:%2F", "orders"),
        ("read:*", "orders"),
        ("read://*", "orders"),
        ("read:*/*/*/*", "orders"),
        ("read:%2F/%zz", "orders"),
        ("read:%2F/%ff*", "orders"),
        ("READ:*/*", "orders"),
        ("reads:*/*", "orders"),
        ("tag:administrator", "orders"),
        ("", "orders"),
    ],
)
def test_what_does_not(scope: str, name: str) -> None:
    assert not may(scope, Right.READ, name)


def test_a_refusal_says_who_and_what() -> None:
    with pytest.raises(AccessRefused) as refusal:
        check_grants((), "ann", queue_of("/", "orders"), Right.READ, is_expired=False)
    assert str(refusal.value) == "read access to queue 'orders' in vhost '/' refused for user 'ann'"


def test_the_default_exchange_has_a_name_here() -> None:
    resource = exchange_of("/", "")
    check_grants(("write:%2F/amq.default",), "ann", resource, Right.WRITE, is_expired=False)


def test_what_has_expired_allows_nothing() -> None:
    with pytest.raises(AccessRefused, match="the token has expired"):
        check_grants(("read:*/*",), "ann", queue_of("/", "q"), Right.READ, is_expired=True)


def test_routing_keys_of_topics() -> None:
    def check(scope: str, key: str) -> None:
        check_topic_grants(
            (scope,), "ann", exchange_of("/", "events"), Right.WRITE, key, is_expired=False
        )

    check("write:%2F/events", "any.key")
    check("write:%2F/ev*/order.*", "order.new")
    with pytest.raises(AccessRefused, match=r"topic 'bill.new' in exchange 'events'"):
        check("write:%2F/ev*/order.*", "bill.new")
    with pytest.raises(AccessRefused):
        check("read:%2F/*", "order.new")


def test_a_virtual_host_is_open_to_who_may_anything_there() -> None:
    assert allows_vhost(("write:shop*/x",), "shop1")
    assert not allows_vhost(("write:shop*/x", "tag:administrator"), "/")


def test_scopes_go_before_permissions() -> None:
    """Who came by a token has nothing of a user of the same name."""
    broker = Broker()
    asker = Principal(vhost="/", user="guest", scopes=("read:*/mine",))
    check_right(broker, asker, queue_of("/", "mine"), Right.READ)
    with pytest.raises(AccessRefused):
        check_right(broker, asker, queue_of("/", "yours"), Right.READ)


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=4), st.text("ab", max_size=8))
def test_wildcards_mean_what_a_regular_expression_means(parts: list[str], text: str) -> None:
    import re

    pattern = ".*".join(map(re.escape, parts))
    assert _agrees(tuple(parts), text) == bool(re.fullmatch(pattern, text, re.DOTALL))


@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    parsed(text)
    parsed(f"read:{text}")
