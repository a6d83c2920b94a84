"""What a channel can be asked and refused: direct replies, transactions, recovery, limits, consumers.

Scenes in the form of ``message_scenes``; where the broker closes the channel, that is the last it says.
"""

from millpond.queue.names import REPLY_TO
from millpond.wire.amqp.methods import (
    AccessRequest,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelFlow,
    ConfirmSelect,
    QueueBind,
    QueueDelete,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
)
from tests.interop.amqp.message_scenes import SETTLE, Collect, Step, send, sends
from tests.interop.amqp.scenes import queue

REPLIES = BasicConsume(queue=REPLY_TO, consumer_tag="r", no_ack=True)
NOBODY = f"{REPLY_TO}.nobody"

CHANNEL_SCENES: dict[str, list[Step]] = {
    # --- direct replies ---------------------------------------------------------------------------
    "asking for replies without waiting for them": [
        queue("d.1"),
        send("d.1", "question", reply_to=REPLY_TO, answers=1),
    ],
    "replies that are to be acknowledged": [BasicConsume(queue=REPLY_TO, consumer_tag="r")],
    "waiting for replies twice": [REPLIES, BasicConsume(queue=REPLY_TO, no_ack=True)],
    "waiting for replies again": [
        REPLIES,
        BasicCancel(consumer_tag="r"),
        REPLIES,
        BasicCancel(consumer_tag="r"),
        send("d.2", "question", reply_to=REPLY_TO, answers=1),
    ],
    "a tag of another consumer for replies": [
        queue("d.3"),
        BasicConsume(queue="d.3", consumer_tag="r"),
        REPLIES,
    ],
    "looking for the queue of replies": [
        queue(REPLY_TO, passive=True),
        queue(REPLY_TO, durable=True),
        queue(f"{REPLY_TO}\r\n"),
        QueuePurge(queue=REPLY_TO),
    ],
    "looking for a reply's address": [queue(NOBODY, passive=True)],
    "looking for an address of other characters": [queue(f"{REPLY_TO}x", passive=True)],
    "getting from the queue of replies": [BasicGet(queue=REPLY_TO)],
    "binding the queue of replies": [QueueBind(queue=REPLY_TO, exchange="amq.fanout")],
    "deleting the queue of replies": [QueueDelete(queue=REPLY_TO)],
    "a reply for nobody": [
        ConfirmSelect(),
        send(NOBODY, "answer", answers=1),
        send(NOBODY, "answer", mandatory=True, answers=2),
    ],
    # --- transactions -----------------------------------------------------------------------------
    "committing nothing": [TxSelect(), TxSelect(), TxCommit(), TxRollback()],
    "committing without a transaction": [TxCommit()],
    "rolling back without a transaction": [TxRollback()],
    "a transaction after confirms": [ConfirmSelect(), ConfirmSelect(), TxSelect()],
    "confirms after a transaction": [TxSelect(), ConfirmSelect()],
    "published when committed": [
        queue("t.1"),
        TxSelect(),
        *sends("t.1", "ab"),
        BasicGet(queue="t.1"),
        TxRollback(),
        *sends("t.1", "cd"),
        TxCommit(),
        BasicGet(queue="t.1", no_ack=True),
        BasicGet(queue="t.1", no_ack=True),
        BasicGet(queue="t.1", no_ack=True),
    ],
    "a transaction's publish to nowhere": [
        TxSelect(),
        send("t.2", "x", via="no such exchange", answers=1),
    ],
    "a transaction's publish that comes back": [
        queue("t.3"),
        TxSelect(),
        send("t.nowhere", "x", mandatory=True),
        send("t.3", "y"),
        Collect(0),
        TxCommit(),
        Collect(1),
    ],
    "a transaction's unknown tag": [TxSelect(), BasicAck(delivery_tag=7), Collect(0)],
    "acknowledged and rolled back": [
        queue("t.4"),
        *sends("t.4", "abc"),
        TxSelect(),
        BasicConsume(queue="t.4", consumer_tag="t"),
        Collect(3),
        BasicAck(delivery_tag=2, multiple=True),
        BasicNack(delivery_tag=3, requeue=True),
        TxRollback(),
        BasicAck(delivery_tag=1),
        BasicNack(delivery_tag=3, requeue=False),
        TxCommit(),
        BasicRecover(requeue=True),
        Collect(1),
    ],
    "acknowledged twice in a transaction": [
        queue("t.5"),
        *sends("t.5", "a"),
        TxSelect(),
        BasicGet(queue="t.5"),
        BasicAck(delivery_tag=1),
        BasicAck(delivery_tag=1),
        Collect(0),
    ],
    "no room for a transaction": [
        queue("t.6", {"x-max-length": 1, "x-overflow": "reject-publish"}),
        TxSelect(),
        *sends("t.6", "abc"),
        TxCommit(),
    ],
    # --- recovery, flow, tickets ------------------------------------------------------------------
    "recovering elsewhere": [BasicRecover(requeue=False)],
    "recovering without an answer": [
        queue("c.1"),
        *sends("c.1", "ab"),
        BasicConsume(queue="c.1", consumer_tag="t"),
        Collect(2),
        BasicRecoverAsync(requeue=True),
        Collect(2),
    ],
    "recovering elsewhere without an answer": [BasicRecoverAsync(requeue=False), Collect(0)],
    "going on with the flow": [ChannelFlow(active=True)],
    "stopping the flow": [ChannelFlow(active=False)],
    "asking for a ticket": [AccessRequest()],
    # --- limits -----------------------------------------------------------------------------------
    "a limit in bytes": [BasicQos(prefetch_size=1)],
    "a limit for each ends the one for all": [
        queue("l.1"),
        *sends("l.1", "abcde"),
        BasicQos(prefetch_count=1, is_global=True),
        BasicQos(prefetch_count=2),
        BasicConsume(queue="l.1", consumer_tag="t"),
        Collect(2),
        BasicAck(delivery_tag=1),
        Collect(1),
    ],
    "no limit for all any more": [
        queue("l.2"),
        *sends("l.2", "abc"),
        BasicQos(prefetch_count=1, is_global=True),
        BasicConsume(queue="l.2", consumer_tag="t"),
        Collect(1),
        BasicQos(prefetch_count=0, is_global=True),
        Collect(2),
    ],
    "a limit for all that grows": [
        queue("l.3"),
        *sends("l.3", "abcd"),
        BasicQos(prefetch_count=1, is_global=True),
        BasicConsume(queue="l.3", consumer_tag="t"),
        Collect(1),
        BasicQos(prefetch_count=3, is_global=True),
        Collect(2),
        BasicAck(delivery_tag=3, multiple=True),
        Collect(1),
    ],
    "a limit for all does not count what was asked for": [
        queue("l.5"),
        *sends("l.5", "abc"),
        BasicQos(prefetch_count=1, is_global=True),
        BasicGet(queue="l.5"),
        BasicConsume(queue="l.5", consumer_tag="t"),
        Collect(1),
        BasicAck(delivery_tag=1),
        Collect(0),
        BasicAck(delivery_tag=2),
        Collect(1),
    ],
    "a limit for all and a quorum queue": [
        queue("l.4", {"x-queue-type": "quorum"}, durable=True),
        BasicQos(prefetch_count=5, is_global=True),
        BasicConsume(queue="l.4", consumer_tag="t"),
    ],
    # --- consumers --------------------------------------------------------------------------------
    "an exclusive consumer after another": [
        queue("x.1"),
        BasicConsume(queue="x.1", consumer_tag="a"),
        BasicConsume(queue="x.1", consumer_tag="b", exclusive=True),
    ],
    "another consumer after an exclusive one": [
        queue("x.2"),
        BasicConsume(queue="x.2", consumer_tag="a", exclusive=True),
        BasicConsume(queue="x.2", consumer_tag="b"),
    ],
    "an exclusive consumer after it went": [
        queue("x.3"),
        BasicConsume(queue="x.3", consumer_tag="a", exclusive=True),
        BasicCancel(consumer_tag="a"),
        BasicConsume(queue="x.3", consumer_tag="b", exclusive=True),
    ],
    "a tag used twice": [
        queue("x.4"),
        BasicConsume(queue="x.4", consumer_tag="a"),
        BasicConsume(queue="no such queue", consumer_tag="a"),
    ],
    "stopping a consumer that is not there": [BasicCancel(consumer_tag="nobody")],
    "getting where only one may be active": [
        queue("x.5", {"x-queue-type": "quorum", "x-single-active-consumer": True}, durable=True),
        BasicGet(queue="x.5"),
    ],
    "a consumer whose queue goes": [
        queue("x.6"),
        BasicConsume(queue="x.6", consumer_tag="a"),
        QueueDelete(queue="x.6"),
        SETTLE,
        Collect(1),
        BasicCancel(consumer_tag="a"),
    ],
    "a consumer whose queue deletes itself": [
        queue("x.7", auto_delete=True),
        BasicConsume(queue="x.7", consumer_tag="a"),
        BasicCancel(consumer_tag="a"),
        SETTLE,
        queue("x.7", passive=True),
    ],
    "an argument of a queue that differs besides its type": [
        queue("x.8", {"x-queue-type": "quorum"}, durable=True),
        queue("x.8", {"x-dead-letter-exchange": "amq.fanout"}, durable=True),
    ],
    # --- properties that cannot be ------------------------------------------------------------------
    **{
        f"an expiration of {text!r}": [
            ConfirmSelect(),
            send("none", "a", expiration=text, answers=1),
        ]
        for text in ("", "+5", "-1", " 5", "5 ", "1.5", "12abc", "315360000000", "315360000001")
    },
    **{
        f"a delivery mode of {mode}": [
            ConfirmSelect(),
            send("none", "a", delivery_mode=mode, answers=1),
        ]
        for mode in (0, 1, 2, 3)
    },
    **{
        f"copies for {value!r}": [
            ConfirmSelect(),
            send("none", "a", headers={name: value}, answers=1),
        ]
        for name, value in (
            ("CC", "x"),
            ("CC", 1),
            ("CC", None),
            ("BCC", True),
            ("BCC", {"a": 1}),
            ("CC", []),
            ("BCC", ["x", 1]),
        )
    },
    "a copy for a number": [
        queue("1"),
        ConfirmSelect(),
        send("none", "a", headers={"CC": [1]}, answers=1),
        queue("1", passive=True),
    ],
    "a blind copy that comes back": [
        send("none", "a", headers={"BCC": ["nobody"], "h": 1}, mandatory=True, answers=1),
    ],
    "a mode of queues that there is not": [queue("x.9", {"x-queue-mode": "other"})],
    "what is wrong first": [
        ConfirmSelect(),
        send("none", "a", headers={"BCC": 1, "CC": 1.5}, delivery_mode=3, answers=1),
    ],
    "what is wrong before that": [
        ConfirmSelect(),
        send("none", "a", headers={"CC": 1}, delivery_mode=3, expiration="x", answers=1),
    ],
}
