"""Every family of records keeps its facts: as bytes, in the image, in snapshots, and from image to image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.base.errors import CorruptLog
from millpond.engine.quorum.metadata_snapshot import read_snapshot, write_snapshot
from millpond.metadata.families import NO_FAMILIES, Families, RecordFamily
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_delta, image_records
from millpond.metadata.records import (
    FeatureLevelRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from millpond.rabbit import records as rabbit
from millpond.rabbit.family import DECLARATIONS, LatestRecords
from millpond.server.protocols import record_families
from tests.support.cluster.toy_family import TOY, NumberDeleted, NumberSet
from tests.support.storage.faulty_storage import FaultyStorage

KAFKA = (
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    TopicRecord(name="t", topic_id=UUID(int=7)),
)


def _always(_slice: Any, _fact: Any) -> bool:
    return True


def _is_decided(latest: LatestRecords, fact: rabbit.Fact) -> bool:
    """Whether the controller would decide this: what a thing depends on is there."""
    vhosts = {one.name for one in latest if isinstance(one, rabbit.VirtualHost)}
    users = {one.name for one in latest if isinstance(one, rabbit.User)}
    exchanges = {(one.vhost, one.name) for one in latest if isinstance(one, rabbit.Exchange)}
    queues = {(one.vhost, one.name) for one in latest if isinstance(one, rabbit.Queue)}
    match fact:
        case rabbit.Binding():
            targets = queues if fact.to_queue else exchanges
            return (fact.vhost, fact.source) in exchanges and (
                fact.vhost,
                fact.destination,
            ) in targets
        case rabbit.Permission() | rabbit.TopicPermission():
            return fact.vhost in vhosts and fact.user in users
        case rabbit.Exchange() | rabbit.Queue() | rabbit.Policy():
            return fact.vhost in vhosts
        case _:
            return True


vhosts, names, users = (st.sampled_from(one) for one in ("ab", "xyz", "uv"))
tables = st.dictionaries(st.sampled_from(("k", "x-max-length")), st.integers(0, 9), max_size=2)
declared: st.SearchStrategy[rabbit.Fact] = st.one_of(
    st.builds(rabbit.VirtualHost, name=vhosts, description=st.text(max_size=3)),
    st.builds(rabbit.Exchange, vhost=vhosts, name=names, type=st.sampled_from(("topic", "fanout"))),
    st.builds(rabbit.Queue, vhost=vhosts, name=names, topic=names, arguments=tables),
    st.builds(
        rabbit.Binding,
        vhost=vhosts,
        source=names,
        destination=names,
        to_queue=st.booleans(),
        routing_key=st.text(max_size=2),
        arguments=tables,
    ),
    st.builds(rabbit.Policy, vhost=vhosts, name=names, pattern=names, definition=tables),
    st.builds(rabbit.User, name=users, tags=st.lists(names, max_size=2).map(tuple)),
    st.builds(rabbit.Permission, user=users, vhost=vhosts, read=st.text(max_size=3)),
    st.builds(rabbit.TopicPermission, user=users, vhost=vhosts, exchange=names),
    st.builds(rabbit.Parameter, component=names, name=names, value=tables),
    st.builds(rabbit.VirtualHostDeleted, name=vhosts),
    st.builds(rabbit.ExchangeDeleted, vhost=vhosts, name=names),
    st.builds(rabbit.QueueDeleted, vhost=vhosts, name=names),
    st.builds(
        rabbit.BindingDeleted,
        vhost=vhosts,
        source=names,
        destination=names,
        to_queue=st.booleans(),
    ),
    st.builds(rabbit.PolicyDeleted, vhost=vhosts, name=names),
    st.builds(rabbit.UserDeleted, name=users),
    st.builds(rabbit.PermissionDeleted, user=users, vhost=vhosts),
    st.builds(rabbit.TopicPermissionDeleted, user=users, vhost=vhosts, exchange=names),
    st.builds(rabbit.ParameterDeleted, component=names, name=names),
)
numbers = st.one_of(
    st.builds(NumberSet, name=st.text(max_size=4), value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(NumberDeleted, name=st.text(max_size=4)),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A family, facts of it, and which of them a controller would write to a slice."""

    family: RecordFamily[Any, Any]
    facts: st.SearchStrategy[Any]
    is_decided: Callable[[Any, Any], bool] = _always


# A family of a protocol without a line here fails a test.
CASES: dict[RecordFamily[Any, Any], Case] = {
    DECLARATIONS: Case(DECLARATIONS, declared, _is_decided),
    TOY: Case(TOY, numbers),
}
ALL = Families(CASES)
cases = st.sampled_from(tuple(CASES.values()))


def fold(case: Case, facts: Sequence[Any], image: Image) -> Image:
    for fact in facts:
        if case.is_decided(case.family.slice_of(image), fact):
            image = apply(image, [case.family.record(fact)])
    return image


@st.composite
def images(draw: st.DrawFn) -> Image:
    """Facts of several families and Kafka's."""
    image = apply(Image(), KAFKA)
    for case in CASES.values():
        image = fold(case, draw(st.lists(case.facts, max_size=30)), image)
    return image


def test_every_family_of_a_protocol_is_tried_here() -> None:
    assert set(record_families()) <= set(CASES)


@given(cases.flatmap(lambda case: st.tuples(st.just(case.family), case.facts)))
def test_a_fact_is_the_same_when_it_is_read_again(
    found: tuple[RecordFamily[Any, Any], Any],
) -> None:
    family, fact = found
    record = family.record(fact)
    value = encode_record(record)
    assert decode_record(value, ALL) == record
    assert record.type in family.types
    with pytest.raises(CorruptLog, match="a newer version of Millpond wrote it"):
        decode_record(value, NO_FAMILIES)


@given(cases, st.binary(max_size=40), st.data())
def test_bytes_that_are_none_of_a_familys_are_corrupt(
    case: Case, data: bytes, choice: st.DataObject
) -> None:
    kind = choice.draw(st.sampled_from(sorted(case.family.types)))
    garbage = replace(case.family, type_of=lambda _fact: kind, encode=lambda _fact: data)
    value = encode_record(garbage.record(None))
    try:
        record = decode_record(value, ALL)
    except CorruptLog:
        return
    assert decode_record(encode_record(record), ALL) == record


@given(images(), images())
def test_the_facts_between_two_images_lead_from_one_to_the_other(a: Image, b: Image) -> None:
    assert apply(a, image_delta(a, b)) == b
    assert apply(b, image_delta(b, a)) == a
    assert image_delta(a, a) == []


@given(images())
def test_a_snapshot_has_all_families(image: Image) -> None:
    assert apply(Image(), image_records(image)) == image
    storage = FaultyStorage()
    storage.make_dir("d")
    write_snapshot(storage, "d", image, end_offset=9, epoch=2, now_ms=5)
    snapshot = read_snapshot(storage, "d", log_start=0, families=ALL)
    assert snapshot is not None
    again = apply(Image(), snapshot.records)
    assert again == image
    for family in ALL:
        assert list(family.slice_of(again)) == list(family.slice_of(image))


@given(images())
def test_what_is_all_gone_leaves_nothing_behind(image: Image) -> None:
    bare = apply(Image(), KAFKA)
    emptied = apply(image, image_delta(image, bare))
    assert emptied == bare
    assert not emptied.slices


def test_a_diff_that_forgets_what_is_gone_is_found() -> None:
    """A planted bug."""

    def diff(before: Any, after: Any) -> Any:
        return [one for one in TOY.diff(before, after) if isinstance(one, NumberSet)]

    bad = replace(TOY, diff=diff)

    @given(st.lists(numbers, max_size=10), st.lists(numbers, max_size=10))
    def holds(first: list[Any], second: list[Any]) -> None:
        case = Case(bad, numbers)
        a, b = fold(case, first, Image()), fold(case, second, Image())
        assert apply(a, image_delta(a, b)) == b

    with pytest.raises(AssertionError):
        holds()


def test_families_share_no_type() -> None:
    with pytest.raises(AssertionError):
        Families([TOY, replace(TOY, name="another")])
