"""What is declared is in the image, in records and snapshots; what goes takes with it what hangs on it."""

import pytest

from millpond.metadata.families import Families
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_delta, image_records
from millpond.metadata.records import FamilyRecord, decode_record, encode_record
from millpond.rabbit.broker import Broker
from millpond.rabbit.family import DECLARATIONS
from millpond.rabbit.records import (
    Binding,
    BindingDeleted,
    Exchange,
    ExchangeDeleted,
    Fact,
    Parameter,
    Permission,
    Policy,
    Queue,
    QueueDeleted,
    TopicPermission,
    User,
    UserDeleted,
    VirtualHost,
    VirtualHostDeleted,
)

ALL: list[Fact] = [
    VirtualHost(name="/"),
    VirtualHost(name="other"),
    Exchange(vhost="/", name="e", type="topic"),
    Exchange(vhost="/", name="f", type="fanout"),
    Queue(vhost="/", name="q", topic="q", arguments={"x-max-length": 5}),
    Queue(vhost="other", name="q", topic="amqp--other--q"),
    Binding(vhost="/", source="e", destination="q", routing_key="a.#"),
    Binding(vhost="/", source="f", destination="e", to_queue=False),
    Policy(vhost="/", name="p", pattern="^q", definition={"max-length": 5}),
    User(name="u"),
    Permission(user="u", vhost="/", read=".*"),
    TopicPermission(user="u", vhost="/", exchange="e"),
    Parameter(component="c", name="n", value={"a": 1}),
]


def image_of(*facts: Fact) -> Image:
    return apply(Image(), [_kept(fact) for fact in facts])


def _kept(fact: Fact) -> FamilyRecord:
    record = decode_record(encode_record(DECLARATIONS.record(fact)), Families([DECLARATIONS]))
    assert isinstance(record, FamilyRecord)
    assert record.fact == fact
    return record


def left(*ends: Fact) -> list[Fact]:
    return list(DECLARATIONS.slice_of(image_of(*ALL, *ends)))


@pytest.mark.parametrize(
    ("fact", "data"),
    [
        (VirtualHost(name="/"), "01a19c01001000010000046e616d6553000000012f00"),
        (
            QueueDeleted(vhost="/", name="q"),
            "01879d01001c006700000576686f737453000000012f046e616d6553000000017100",
        ),
        (
            Permission(user="u", vhost="/", read=".*"),
            "01a79c0100280007000004757365725300000001750576686f737453000000012f047265616453000000022e2a00",
        ),
    ],
)
def test_records_are_those_that_earlier_versions_wrote(fact: Fact, data: str) -> None:
    assert encode_record(DECLARATIONS.record(fact)).hex() == data
    assert _kept(fact) == decode_record(bytes.fromhex(data), Families([DECLARATIONS]))


def test_a_snapshot_has_everything_in_the_order_in_which_it_came_to_be() -> None:
    image = image_of(*ALL)
    again = apply(Image(), image_records(image))
    assert list(DECLARATIONS.slice_of(again)) == ALL


def test_what_goes_takes_its_bindings_with_it() -> None:
    queue_gone = left(QueueDeleted(vhost="/", name="q"))
    assert [one for one in ALL if one not in queue_gone] == [ALL[4], ALL[6]]
    exchange_gone = left(ExchangeDeleted(vhost="/", name="e"))
    assert [one for one in ALL if one not in exchange_gone] == [ALL[2], ALL[6], ALL[7]]
    user_gone = left(UserDeleted(name="u"))
    assert [one for one in ALL if one not in user_gone] == ALL[9:12]
    assert left(VirtualHostDeleted(name="/")) == [ALL[1], ALL[5], ALL[9], ALL[12]]


def test_a_binding_goes_by_what_it_is() -> None:
    gone = left(BindingDeleted(vhost="/", source="e", destination="q", routing_key="a.#"))
    assert [one for one in ALL if one not in gone] == [ALL[6]]
    kept = left(BindingDeleted(vhost="/", source="e", destination="q", routing_key="a.*"))
    assert kept == ALL


def test_the_way_from_one_image_to_another_leads_a_broker_there() -> None:
    before = image_of(*ALL)
    changes: list[Fact] = [
        QueueDeleted(vhost="/", name="q"),
        Queue(vhost="/", name="q", topic="q", durable=False),
        VirtualHostDeleted(name="other"),
        Exchange(vhost="/", name="g", type="direct"),
    ]
    after = apply(before, [DECLARATIONS.record(fact) for fact in changes])
    broker = Broker()
    for fact in DECLARATIONS.slice_of(before):
        broker.apply(fact)
    for fact in DECLARATIONS.diff(DECLARATIONS.slice_of(before), DECLARATIONS.slice_of(after)):
        broker.apply(fact)
    rooms = broker.rooms("/")
    assert not rooms.queue("q").durable
    assert rooms.bindings_to("q", to_queue=True) == []
    assert "g" in rooms.exchanges
    assert list(broker.vhosts) == ["/"]
    assert apply(before, image_delta(before, after)) == after
