"""What the share handlers share: readiness, acknowledgements of one partition, the end of a session."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from millpond.base.errors import InvalidRequest, MillpondError
from millpond.engine.api.share import Acknowledgement
from millpond.frontend.kafka.handler import Context, Payload, Result
from millpond.frontend.kafka.share_sessions import ShareMemberKey
from millpond.wire.kafka.connection import Request


class AcknowledgementBatch(Protocol):
    """The part of both requests that speaks of records."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def when_ready(
    context: Context, request: Request, handle: Callable[[Context, Request], Payload]
) -> Result:
    """Answer, after the state topic was made if this is the first time that it is needed."""
    if context.engine.share.is_ready:
        return handle(context, request)

    async def prepare() -> Payload:
        await context.engine.share.prepare()
        return handle(context, request)

    return prepare()


def member_key(group_id: str | None, member_id: str | None) -> ShareMemberKey:
    """Return the member that asks. Raise ``InvalidRequest`` if the request names none."""
    if not group_id or not member_id:
        raise InvalidRequest("a share request names its group and its member")
    return ShareMemberKey(group_id, member_id)


def acknowledge(
    context: Context,
    key: ShareMemberKey,
    topic_id: UUID,
    partition: int,
    batches: Sequence[AcknowledgementBatch],
) -> tuple[MillpondError | None, "asyncio.Future[None] | None"]:
    """Acknowledge records of one partition. Return the error, or when the acknowledgement is durable."""
    words = [
        Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types) for one in batches
    ]
    try:
        durable = context.engine.share.delivery.acknowledge(
            key.group_id, topic_id, partition, words, owner=key.member_id
        )
    except MillpondError as error:
        return error, None
    return None, durable


def watch_connection(context: Context) -> None:
    """See to it that members which disappear with their connection keep nothing from others."""

    def lost() -> None:
        for group_id, member_id in context.frontend.share_sessions.lost(context.session):
            try:
                context.engine.share.delivery.release_member(group_id, member_id)
            except MillpondError:
                return  # stopping, or the disk is full: the locks end by themselves

    context.session.when_lost("share sessions", lost)
