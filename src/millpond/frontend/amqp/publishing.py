"""Publishes: from what one read brought for one channel to one append for each queue, and to confirms.

Every message is routed and checked first; then each queue gets its messages in one batch. A confirm is sent
when every append of the message is durable, for as many messages as possible at once. An error of one message
closes the channel, after the messages before it were appended.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from millpond.auth.permissions import Right
from millpond.base import errors
from millpond.base.fields import Table, type_name
from millpond.engine.api.queues import Kept
from millpond.engine.api.runtime import when_all_done
from millpond.frontend.amqp.channel import Channel
from millpond.frontend.amqp.codec import changed, chosen_by, message_of
from millpond.frontend.amqp.expirations import wrong_expiration
from millpond.frontend.amqp.message_stats import PUBLISH
from millpond.frontend.amqp.replies import ADDRESS_PREFIX
from millpond.message.hub import Message
from millpond.rabbit.copies import copies
from millpond.rabbit.declare import check_right, check_topic_right
from millpond.rabbit.exchange_types import CHANCES, Routed
from millpond.rabbit.names import REPLY_TO, exchange_of, is_hidden
from millpond.wire.amqp.events import Publish
from millpond.wire.amqp.methods import BasicAck, BasicNack, BasicPublish, BasicReturn
from millpond.wire.amqp.properties import Properties, decode_properties, encode_properties
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

log = logging.getLogger(__name__)

# Transient, persistent, and not set.
_DELIVERY_MODES = frozenset((None, 1, 2))

# Queues that are appended to before other connections get their turn: some milliseconds.
QUEUES_A_STEP = 100


class _Share(NamedTuple):
    """The messages for one queue, and their numbers among all publishes."""

    numbers: list[int]
    messages: list[Message]


class Way(NamedTuple):
    """The route of a message, for later ones that differ in the body only.

    It holds until a declaration or a permission changes: ``changes`` counts that.
    """

    method: BasicPublish
    properties: bytes
    message: Message
    queues: tuple[str, ...]
    changes: int


class Publishing:
    """The publishes of one read, or of one transaction, on their way into queues.

    Those of a transaction are carried out later than they are addressed. As in RabbitMQ their bindings are
    those of the publish, and whether a queue is there, and how old a message is, counts from the commit.
    """

    def __init__(
        self, session: "AmqpSession", channel: Channel, *, in_transaction: bool = False
    ) -> None:
        self._session = session
        self._channel = channel
        self._in_transaction = in_transaction
        self._queues: dict[str, _Share] = {}
        self._count = 0
        # Unroutable messages that are returned to their publisher.
        self._unroutable: list[Publish] = []
        # By number: messages of a transaction that are returned if none of their queues exists.
        self._mandatory: dict[int, Publish] = {}
        # Numbers, from 0, of the messages that a queue did not take.
        self._refused: set[int] = set()
        # Futures of appends, and the numbers of their messages.
        self._durable: dict[Kept, _Share] = {}

    def add(self, publishes: list[Publish]) -> None:
        """Route messages. Raises what is wrong with one of them; those before it stay added."""
        frontend = self._session.frontend
        now_ms = frontend.engine.runtime.clock.now_ms()
        changes = frontend.queues.broker.changes
        way = self._channel.way
        if way is not None and way.changes != changes:
            way = None
        shares: list[_Share] | None = None
        for publish in publishes:
            method, block, body = publish
            # A publisher repeats method and properties: only the body is new.
            if way is None or way.method is not method or way.properties != block:
                way, shares = self._add(publish, now_ms, changes), None
                continue
            (address, key, _, headers, _, _, time, ttl, priority, lasts, delay, origin) = (
                way.message
            )
            message = Message(
                address,
                key,
                block,
                headers,
                body,
                now_ms,
                time,
                ttl,
                priority,
                lasts,
                delay,
                origin,
            )
            if shares is None:
                shares = [self._share(name) for name in way.queues]
            number, self._count = self._count, self._count + 1
            if self._in_transaction and method.mandatory:
                self._mandatory[number] = publish
            for share in shares:
                share.numbers.append(number)
                share.messages.append(message)
        self._channel.way = way and way._replace(message=way.message._replace(body=b""))

    @property
    def is_wide(self) -> bool:
        """Whether so many queues get messages that other connections must be served in between."""
        return len(self._queues) > QUEUES_A_STEP

    def carry_out(self) -> None:
        """Append the added messages."""
        for _step in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Append the added messages in steps of some milliseconds."""
        queues = self._session.frontend.queues
        if self._in_transaction:
            self._look_again()
        for publish in self._unroutable:
            self._give_back(publish)
        for number, (name, share) in enumerate(self._queues.items()):
            if number and number % QUEUES_A_STEP == 0:
                yield
            count = len(share.messages)
            try:
                queue = queues.find(self._session.vhost, name)
                taken = queue.publish(share.messages)
            except errors.MillpondError as error:
                log.warning("queue=%s: %d messages are not kept: %s", name, count, error)
                self._refused.update(share.numbers)
                if isinstance(error, errors.StorageFailure):
                    self._session.frontend.disk_alarm.on_failure()
                continue
            for durable in taken.durable:
                self._durable[durable] = share
            self._session.frontend.stats.count(queue, PUBLISH, taken.admitted)
            if taken.admitted < count:
                self._refused.update(share.numbers[taken.admitted :])

    def _look_again(self) -> None:
        """Begin to append the publishes of a transaction, to the queues that exist now."""
        now_ms = self._session.frontend.engine.runtime.clock.now_ms()
        there = self._session.rooms.queues
        self._queues = {
            name: _Share(
                share.numbers,
                [message._replace(received_ms=now_ms) for message in share.messages],
            )
            for name, share in self._queues.items()
            if name in there
        }
        routed = {number for share in self._queues.values() for number in share.numbers}
        self._unroutable = [
            publish for number, publish in self._mandatory.items() if number not in routed
        ]

    def confirm(self) -> None:
        """Send confirms when everything is durable, if the channel is in confirm mode."""
        if self._channel.confirms is None:
            for future in self._durable:
                future.add_done_callback(_ignore)
            return
        first = self._channel.confirms.number(self._count)
        if not self._durable:
            self._answer(first, is_kept=True)
            return
        when_all_done(self._durable, lambda: self._answer(first, is_kept=self._are_kept()))

    async def settled(self) -> bool:
        """Wait until everything is durable. Return whether it all is."""
        if self._durable:
            await asyncio.wait(self._durable)
        return self._are_kept() and not self._refused

    def _are_kept(self) -> bool:
        """Look at everything that was to become durable. Return whether it all has."""
        kept = [self._look_at(one) for one in self._durable]
        return all(kept)

    def _look_at(self, done: Kept) -> bool:
        """Whether an append succeeded. A message that a queue did not admit counts as refused."""
        if done.cancelled():
            return False
        error = done.exception()
        if error is not None:
            if isinstance(error, errors.StorageFailure):
                self._session.frontend.disk_alarm.on_failure()
            # A queue that is deleted during the commit counts as deleted before it.
            return self._in_transaction and isinstance(error, errors.UnknownResource)
        admitted = done.result()
        if admitted is not None:
            self._refused.update(self._durable[done].numbers[admitted:])
        return True

    # --- one message ---------------------------------------------------------------------------------

    def _share(self, name: str) -> _Share:
        share = self._queues.get(name)
        if share is None:
            share = self._queues[name] = _Share([], [])
        return share

    def _add(self, publish: Publish, now_ms: int, changes: int) -> "Way | None":
        """Route one message. Return its route if later messages like it may take it, too."""
        method, block, body = publish
        session = self._session
        rooms = session.rooms
        exchange, key = method.exchange, method.routing_key
        self._check_exchange(publish)
        try:
            properties = decode_properties(block)
        except errors.MalformedData as error:
            raise Violation(ReplyCode.FRAME_ERROR, str(error), class_id=60, method_id=40) from None
        if properties.expiration is not None or properties.user_id is not None:
            self._check_properties(properties)
        if properties.reply_to == REPLY_TO:
            address = session.frontend.replies.address(self._channel)
            properties = changed(properties, reply_to=address)
            block = encode_properties(properties)
            publish = publish._replace(properties=block)
        headers = properties.headers
        keys: tuple[str, ...] = (key,)
        if headers and ("CC" in headers or "BCC" in headers):
            for name in ("CC", "BCC"):
                _check_copies(headers, name)
            keys = (key, *copies(headers.get("CC")), *copies(headers.get("BCC")))
            if "BCC" in headers:
                kept: Table = {name: one for name, one in headers.items() if name != "BCC"}
                properties = changed(properties, headers=kept)
                block = encode_properties(properties)
                # Neither consumers nor the publisher of a returned message see these headers.
                publish = publish._replace(properties=block)
        if properties.delivery_mode not in _DELIVERY_MODES:
            raise _invalid(f"{{delivery_mode_unknown,{properties.delivery_mode}}}")
        is_reply = not exchange and any(one.startswith(ADDRESS_PREFIX) for one in keys)
        if is_reply:
            self._reply(
                keys, message_of(exchange, key, block, properties, body, received_ms=now_ms)
            )
        routed = Routed(keys, properties.headers or {})
        if not rooms.router.is_by_key(exchange, keys):
            # The exchange type may choose by other properties, or at random.
            chance = session.frontend.engine.runtime.rng.randrange(CHANCES)
            routed = Routed(keys, routed.headers, chosen_by(properties), chance)
        found = rooms.router.route(exchange, routed)
        number, self._count = self._count, self._count + 1
        if self._in_transaction:
            if method.mandatory:
                self._mandatory[number] = publish
            if not exchange:
                found = _queues_named(keys)
        elif not found and method.mandatory:
            self._unroutable.append(publish)
        if not found:
            return None
        message = message_of(exchange, key, block, properties, body, received_ms=now_ms)
        for name in found:
            share = self._share(name)
            share.numbers.append(number)
            share.messages.append(message)
        is_plain = not headers and properties.reply_to != REPLY_TO and not is_reply
        is_plain = is_plain and rooms.router.is_by_key(exchange, keys)
        return Way(method, block, message, tuple(found), changes) if is_plain else None

    def _check_exchange(self, publish: Publish) -> None:
        method = publish.method
        session = self._session
        exchange = method.exchange
        resource = exchange_of(session.vhost, exchange)
        if method.immediate:
            raise Violation(ReplyCode.NOT_IMPLEMENTED, "immediate=true", class_id=60, method_id=40)
        broker = session.frontend.queues.broker
        if exchange not in session.writable:
            check_right(broker, session.asker, resource, Right.WRITE)
            session.writable.add(exchange)
        if exchange and session.rooms.exchange(exchange).internal:
            raise errors.AccessRefused(f"cannot publish to internal {resource}")
        if broker.topic_permissions or session.asker.scopes is not None:
            key = method.routing_key
            check_topic_right(broker, session.asker, exchange, Right.WRITE, key)

    def _check_properties(self, properties: Properties) -> None:
        expiration, user = properties.expiration, properties.user_id
        if user is not None and user != self._session.user and not self._session.may_impersonate:
            raise errors.InvalidQueueArgument(
                f"user_id property set to '{user}' but authenticated user was "
                f"'{self._session.user}'"
            )
        wrong = None if expiration is None else wrong_expiration(expiration)
        if wrong is not None:
            raise errors.InvalidQueueArgument(f"invalid expiration '{expiration}': {wrong}")

    def _reply(self, keys: tuple[str, ...], message: Message) -> None:
        """Send replies to waiting channels; such an address is no queue, so there is no confirm of them."""
        for address in sorted(set(keys)):
            self._session.frontend.replies.send(address, message)

    def _give_back(self, publish: Publish) -> None:
        method, block, body = publish
        back = BasicReturn(
            reply_code=ReplyCode.NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=method.exchange,
            routing_key=method.routing_key,
        )
        self._session.send_content(self._channel, back, block, body)

    # --- confirms --------------------------------------------------------------------------------------

    def _answer(self, first: int, *, is_kept: bool) -> None:
        channel, confirms = self._channel, self._channel.confirms
        if channel.is_closed or confirms is None or not self._count:
            return
        for low, high, is_yes in self._ranges():
            for answer in confirms.answer(first + low, first + high, is_yes=is_yes and is_kept):
                kind = BasicAck if answer.is_yes else BasicNack
                self._session.send(
                    channel, kind(delivery_tag=answer.number, multiple=answer.multiple)
                )

    def _ranges(self) -> Iterator[tuple[int, int, bool]]:
        low = 0
        for number in sorted(self._refused):
            if low < number:
                yield low, number, True
            yield number, number + 1, False
            low = number + 1
        if low < self._count:
            yield low, self._count, True


def _queues_named(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the queues that routing keys name at the default exchange, existing or not."""
    return tuple(
        key
        for key in dict.fromkeys(keys)
        if not key.startswith(ADDRESS_PREFIX) and not is_hidden(key)
    )


def _check_copies(headers: Table, name: str) -> None:
    if name in headers and not isinstance(headers[name], list):
        raise _invalid(f'{{unacceptable_type_in_header,"{name}",{type_name(headers[name])}}}')


def _invalid(why: str) -> errors.InvalidQueueArgument:
    return errors.InvalidQueueArgument(f"invalid message: {why}")


def _ignore(done: Kept) -> None:
    """Ignore an error that was logged and that no confirm waits for."""
    if not done.cancelled():
        done.exception()
