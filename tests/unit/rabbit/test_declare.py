"""What is decided about exchanges, queues and bindings that recorded answers do not show."""

import pytest

from millpond.auth.permissions import hash_password, is_password
from millpond.base.errors import (
    AccessRefused,
    InvalidDefinition,
    InvalidQueueArgument,
    LimitReached,
    QueueLocked,
    ResourceInUse,
    UnknownVirtualHost,
)
from millpond.base.fields import Table
from millpond.rabbit.commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    LoseConnection,
    LoseLastConsumer,
    Principal,
    Store,
    Unbind,
)
from millpond.rabbit.policies import DeadLetterTarget
from millpond.rabbit.records import (
    Exchange,
    Permission,
    PermissionDeleted,
    Policy,
    PolicyDeleted,
    TopicPermission,
    User,
    UserDeleted,
    VirtualHost,
    VirtualHostDeleted,
)
from tests.support.amqp.amqp_model import ModelBroker

ANN = Principal(connection="c1", user="ann")
ROOT = Principal(connection="c1")


def with_user(configure: str = ".*", write: str = ".*", read: str = ".*") -> ModelBroker:
    model = ModelBroker()
    model.put(
        User(name="ann", password_hash=hash_password(b"secret", b"salt")),
        Permission(user="ann", vhost="/", configure=configure, write=write, read=read),
    )
    return model


def test_an_exclusive_queue_is_its_connections_and_goes_with_it() -> None:
    model = ModelBroker()
    model.ask(DeclareExchange(asker=ROOT, name="x", type="fanout", auto_delete=True))
    model.ask(DeclareExchange(asker=ROOT, name="y", type="fanout", auto_delete=True))
    model.ask(DeclareQueue(asker=ROOT, name="mine", exclusive=True, durable=True))
    model.ask(Bind(asker=ROOT, source="x", destination="mine"))
    model.ask(Bind(asker=ROOT, source="y", destination="x", to_queue=False))
    other = Principal(connection="c2")
    for command in (
        DeclareQueue(asker=other, name="mine", passive=True),
        DeleteQueue(asker=other, name="mine"),
        Bind(asker=other, source="amq.direct", destination="mine"),
        Unbind(asker=other, source="x", destination="mine"),
    ):
        with pytest.raises(QueueLocked, match="exclusive access to locked queue 'mine'"):
            model.ask(command)
    model.ask(LoseConnection(connection="c2"))
    rooms = model.broker.rooms("/")
    assert not rooms.queue("mine").durable
    model.ask(LoseConnection(connection="c1"))
    assert not rooms.queues
    assert {"x", "y"}.isdisjoint(rooms.exchanges)
    assert not list(rooms.bindings)
    assert model.broker.owned_by("c1") == []


def test_an_auto_delete_queue_goes_with_its_last_consumer() -> None:
    model = ModelBroker()
    model.ask(DeclareQueue(asker=ROOT, name="q", auto_delete=True))
    model.ask(DeclareQueue(asker=ROOT, name="kept"))
    model.ask(LoseLastConsumer(vhost="/", queue="q"))
    model.ask(LoseLastConsumer(vhost="/", queue="kept"))
    model.ask(LoseLastConsumer(vhost="/", queue="gone"))
    assert list(model.broker.rooms("/").queues) == ["kept"]


def test_a_server_names_a_queue() -> None:
    model = ModelBroker()
    decision = model.ask(DeclareQueue(asker=ROOT, name="", fresh_name="amq.gen-abc"))
    assert decision.queue is not None
    assert decision.queue.name == "amq.gen-abc"
    # Its reserved name is no hindrance to declaring it again.
    model.ask(DeclareQueue(asker=ROOT, name="amq.gen-abc"))


def test_deleting_what_is_used_or_full_is_refused_on_request() -> None:
    model = ModelBroker()
    model.ask(DeclareQueue(asker=ROOT, name="q"))
    with pytest.raises(ResourceInUse, match="queue 'q' in vhost '/' not empty"):
        model.ask(DeleteQueue(asker=ROOT, name="q", if_empty=True, messages=1))
    with pytest.raises(ResourceInUse, match="queue 'q' in vhost '/' in use"):
        model.ask(DeleteQueue(asker=ROOT, name="q", if_unused=True, consumers=1))
    assert model.ask(DeleteQueue(asker=ROOT, name="q", messages=1, consumers=1)).queue is not None


def test_permissions_are_patterns_of_names() -> None:
    model = with_user(configure=r"^mine\.", write=r"^mine\.|^amq\.default$", read="")
    model.ask(DeclareQueue(asker=ANN, name="mine.q"))
    with pytest.raises(
        AccessRefused, match=r"configure access to queue 'q' in vhost '/' refused for user 'ann'"
    ):
        model.ask(DeclareQueue(asker=ANN, name="q"))
    with pytest.raises(AccessRefused, match=r"read access to exchange 'amq\.direct'"):
        model.ask(Bind(asker=ANN, source="amq.direct", destination="mine.q"))
    with pytest.raises(AccessRefused, match=r"read access to queue 'mine\.d'"):
        model.ask(
            DeclareQueue(asker=ANN, name="mine.d", arguments={"x-dead-letter-exchange": "mine.x"})
        )
    # Looking needs any right.
    model.ask(DeclareQueue(asker=ANN, name="mine.q", passive=True))
    with pytest.raises(AccessRefused, match="configure access to queue 'other'"):
        model.ask(DeclareQueue(asker=ANN, name="other", passive=True))
    model.put(PermissionDeleted(user="ann", vhost="/"))
    with pytest.raises(AccessRefused):
        model.ask(DeclareQueue(asker=ANN, name="mine.r"))


def test_topic_permissions_are_patterns_of_keys() -> None:
    model = with_user()
    model.put(TopicPermission(user="ann", vhost="/", exchange="amq.topic", read=r"^{username}\."))
    model.ask(DeclareQueue(asker=ANN, name="q"))
    model.ask(Bind(asker=ANN, source="amq.topic", destination="q", routing_key="ann.#"))
    with pytest.raises(
        AccessRefused,
        match=r"read access to topic 'bob\.#' in exchange 'amq\.topic' in vhost '/' refused",
    ):
        model.ask(Bind(asker=ANN, source="amq.topic", destination="q", routing_key="bob.#"))
    model.ask(Bind(asker=ANN, source="amq.direct", destination="q", routing_key="bob.#"))


def test_virtual_hosts_do_not_meet() -> None:
    model = ModelBroker()
    model.ask(Store(fact=VirtualHost(name="other")))
    elsewhere = Principal(vhost="other")
    model.ask(DeclareQueue(asker=ROOT, name="q"))
    model.ask(DeclareQueue(asker=elsewhere, name="q", durable=True))
    assert not model.broker.rooms("/").queue("q").durable
    model.ask(Store(fact=VirtualHostDeleted(name="other")))
    with pytest.raises(UnknownVirtualHost, match="vhost other not found"):
        model.ask(DeclareQueue(asker=elsewhere, name="q"))
    assert model.broker.rooms("/").queue("q").vhost == "/"


def test_a_virtual_host_has_room_for_so_many_queues() -> None:
    model = ModelBroker()
    model.put(VirtualHost(name="/", queues_max=1))
    model.ask(DeclareQueue(asker=ROOT, name="one"))
    model.ask(DeclareQueue(asker=ROOT, name="one"))
    with pytest.raises(LimitReached, match=r"queue limit in vhost '/' \(1\) is reached"):
        model.ask(DeclareQueue(asker=ROOT, name="two"))


def test_policies_set_what_arguments_do_not() -> None:
    model = ModelBroker()
    model.ask(DeclareQueue(asker=ROOT, name="t.q", arguments={"x-message-ttl": 500}))
    model.ask(DeclareQueue(asker=ROOT, name="other"))
    definition: Table = {"message-ttl": 1000, "max-length": 10, "dead-letter-exchange": "dlx"}
    model.ask(Store(fact=Policy(vhost="/", name="p", pattern="^t", definition=definition)))
    low: Table = {"max-length": 7, "overflow": "reject-publish"}
    lower = Policy(vhost="/", name="low", pattern="t", definition=low, priority=-1)
    model.ask(Store(fact=lower))
    rooms = model.broker.rooms("/")
    settings = rooms.settings("t.q")
    assert (settings.message_ttl_ms, settings.max_length) == (500, 10)
    assert (settings.overflow, settings.dead_letter_target) == (
        "drop-head",
        DeadLetterTarget("dlx", None),
    )
    operator = Policy(
        vhost="/", name="op", pattern=".*", definition={"max-length": 5}, is_operator=True
    )
    model.ask(Store(fact=operator))
    assert rooms.settings("t.q").max_length == 5
    assert rooms.settings("other").max_length == 5
    model.ask(Store(fact=PolicyDeleted(vhost="/", name="p")))
    assert rooms.settings("t.q").overflow == "reject-publish"
    assert rooms.settings("other").dead_letter_target is None


def test_policies_apply_to_kinds() -> None:
    model = ModelBroker()
    model.ask(DeclareQueue(asker=ROOT, name="c"))
    model.ask(
        DeclareQueue(asker=ROOT, name="q", durable=True, arguments={"x-queue-type": "quorum"})
    )
    for number, kind in enumerate(("classic_queues", "quorum_queues", "exchanges"), 1):
        model.ask(
            Store(
                fact=Policy(
                    vhost="/",
                    name=kind,
                    pattern="^(?!amq).*",
                    definition={"max-length": number},
                    apply_to=kind,
                )
            )
        )
    rooms = model.broker.rooms("/")
    assert rooms.settings("c").max_length == 1
    assert rooms.settings("q").max_length == 2
    assert rooms.settings("q").delivery_limit == 20


@pytest.mark.parametrize(
    "policy",
    [
        Policy(vhost="/", name="p", pattern="(", definition={"expires": 1}),
        Policy(vhost="/", name="p", pattern="", definition={}),
        Policy(vhost="/", name="p", pattern="", definition={"expires": "1"}),
        Policy(vhost="/", name="p", pattern="", definition={"overflow": "nonsense"}),
        Policy(vhost="/", name="p", pattern="", definition={"ha-params": 2}),
        Policy(vhost="/", name="p", pattern="", definition={"ha-mode": "exactly"}),
        Policy(vhost="/", name="p", pattern="", definition={"ha-mode": "exactly", "ha-params": 0}),
        Policy(vhost="/", name="p", pattern="", definition={"ha-mode": "nodes", "ha-params": "1"}),
        Policy(vhost="/", name="p", pattern="", definition={"ha-mode": "nodes", "ha-params": []}),
        Policy(vhost="/", name="p", pattern="", definition={"expires": 1}, apply_to="nobody"),
        Policy(
            vhost="/",
            name="p",
            pattern="",
            definition={"dead-letter-exchange": "x"},
            is_operator=True,
        ),
    ],
)
def test_policies_that_cannot_be(policy: Policy) -> None:
    with pytest.raises(InvalidDefinition):
        ModelBroker().ask(Store(fact=policy))


def test_users_and_their_passwords() -> None:
    model = with_user()
    ann = model.broker.users["ann"]
    assert is_password(ann, b"secret")
    assert not is_password(ann, b"")
    assert not is_password(User(name="nobody"), b"")
    model.ask(Store(fact=UserDeleted(name="ann")))
    assert not model.broker.permissions
    with pytest.raises(InvalidDefinition):
        model.ask(Store(fact=UserDeleted(name="ann")))


def test_delayed_and_hashing_exchanges_check_their_arguments() -> None:
    model = ModelBroker()
    with pytest.raises(InvalidQueueArgument, match="'x-delayed-type' must be an existing"):
        model.ask(DeclareExchange(asker=ROOT, name="d", type="x-delayed-message"))
    delayed = DeclareExchange(
        asker=ROOT,
        name="d",
        type="x-delayed-message",
        arguments={"x-delayed-type": "x-consistent-hash"},
    )
    model.ask(delayed)
    model.ask(DeclareQueue(asker=ROOT, name="q"))
    assert "must be an integer" in model_refusal(
        model, Bind(asker=ROOT, source="d", destination="q")
    )
    with pytest.raises(InvalidQueueArgument, match="mutually exclusive"):
        model.ask(
            DeclareExchange(
                asker=ROOT,
                name="h",
                type="x-consistent-hash",
                arguments={"hash-header": "a", "hash-property": "message_id"},
            )
        )


def model_refusal(model: ModelBroker, command: Bind) -> str:
    with pytest.raises(Exception) as caught:
        model.ask(command)
    return str(caught.value)


def test_exchanges_go_with_what_hangs_on_them() -> None:
    model = ModelBroker()
    model.ask(DeclareExchange(asker=ROOT, name="a", type="fanout", auto_delete=True))
    model.ask(DeclareExchange(asker=ROOT, name="b", type="fanout"))
    model.ask(Bind(asker=ROOT, source="a", destination="b", to_queue=False))
    model.ask(DeleteExchange(asker=ROOT, name="b"))
    assert {"a", "b"}.isdisjoint(model.broker.rooms("/").exchanges)
    with pytest.raises(AccessRefused):
        model.ask(Store(fact=Exchange(vhost="/", name="amq.direct", type="fanout")))
