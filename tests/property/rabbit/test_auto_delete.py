"""Exchanges that are to go with their last binding, in any net of exchanges and queues.

The oracle looks at the whole net again and again, one binding at a time, as RabbitMQ does.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.rabbit.commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    LoseConnection,
    Principal,
    Unbind,
)
from tests.support.amqp.amqp_model import ModelBroker

ROOT = Principal(connection="c1")
EXCHANGES = "abcde"
QUEUES = "pqr"

bindings = st.sets(
    st.tuples(
        st.sampled_from(EXCHANGES),
        st.one_of(
            st.tuples(st.just(False), st.sampled_from(EXCHANGES)),
            st.tuples(st.just(True), st.sampled_from(QUEUES)),
        ),
    ),
    min_size=1,
    max_size=12,
)
Target = tuple[bool, str]


def left_over(
    net: set[tuple[str, Target]],
    gone: set[Target],
    lost: set[tuple[str, Target]],
    auto_delete: set[str],
) -> set[str]:
    """The exchanges that stay when some things go, and these bindings with them."""
    there = set(EXCHANGES) - {name for is_queue, name in gone if not is_queue}
    sources = {source for source, _target in lost}
    net = {one for one in net - lost if one[0] in there}
    while True:
        bound = {source for source, _target in net}
        idle = next(iter((sources & auto_delete & there) - bound), None)
        if idle is None:
            return there
        there.discard(idle)
        sources |= {source for source, target in net if target == (False, idle)}
        net = {one for one in net if one[1] != (False, idle)}


@settings(max_examples=300)
@given(
    net=bindings,
    auto_delete=st.sets(st.sampled_from(EXCHANGES)),
    how=st.sampled_from(["queues", "queue", "exchange", "binding"]),
    data=st.data(),
)
def test_what_stays_is_what_still_has_a_binding(
    net: set[tuple[str, Target]], auto_delete: set[str], how: str, data: st.DataObject
) -> None:
    model = ModelBroker()
    for name in EXCHANGES:
        declared = DeclareExchange(
            asker=ROOT, name=name, type="fanout", auto_delete=name in auto_delete
        )
        model.ask(declared)
    for name in QUEUES:
        model.ask(DeclareQueue(asker=ROOT, name=name, exclusive=True))
    for source, (to_queue, name) in sorted(net):
        model.ask(Bind(asker=ROOT, source=source, destination=name, to_queue=to_queue))
    gone: set[Target] = set()
    lost: set[tuple[str, Target]] = set()
    match how:
        case "queues":
            gone = {(True, name) for name in QUEUES}
            model.ask(LoseConnection(connection="c1"))
        case "queue":
            gone = {(True, data.draw(st.sampled_from(QUEUES)))}
            ((_, name),) = gone
            model.ask(DeleteQueue(asker=ROOT, name=name))
        case "exchange":
            gone = {(False, data.draw(st.sampled_from(EXCHANGES)))}
            ((_, name),) = gone
            model.ask(DeleteExchange(asker=ROOT, name=name))
        case _:
            source, (to_queue, name) = one = data.draw(st.sampled_from(sorted(net)))
            lost = {one}
            model.ask(Unbind(asker=ROOT, source=source, destination=name, to_queue=to_queue))
    lost |= {one for one in net if one[1] in gone}
    rooms = model.broker.rooms("/")
    stays = left_over(net, gone, lost, auto_delete)
    assert set(EXCHANGES) & set(rooms.exchanges) == stays
    assert all(one.source in rooms.exchanges for one in rooms.bindings)
