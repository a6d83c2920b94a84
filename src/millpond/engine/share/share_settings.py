"""The settings of a share group, read once until something changes."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millpond.cursor.dead_letter import DeadLetterPolicy, GiveUp
from millpond.group.share.group import ShareSettings
from millpond.metadata.group_configs import READ_COMMITTED

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareView:
    """What holds for one share group."""

    members: ShareSettings
    policy: DeadLetterPolicy
    lock_ms: int
    locks_max: int
    committed: bool
    may_renew: bool
    reset: str
    dead_letters: str


def share_view(engine: "Engine", group_id: str) -> ShareView:
    """What holds for one share group now."""

    def setting(name: str) -> int:
        value: int = engine.group_setting(group_id, name)
        return value

    topic = str(engine.group_setting(group_id, "errors.deadletterqueue.topic.name"))
    prefix = engine.broker_setting("errors.deadletterqueue.topic.name.prefix")
    if topic and not topic.startswith(prefix):
        log.warning(
            "group=%s: %s cannot take dead letters: its name does not begin with %s",
            group_id,
            topic,
            prefix,
        )
        topic = ""
    give_up = GiveUp.DEAD_LETTER if topic else GiveUp.DROP
    return ShareView(
        members=ShareSettings(
            heartbeat_interval_ms=setting("share.heartbeat.interval.ms"),
            session_timeout_ms=setting("share.session.timeout.ms"),
            members_max=engine.broker_setting("group.share.max.size"),
        ),
        policy=DeadLetterPolicy(
            deliveries_max=setting("share.delivery.count.limit"),
            on_rejected=give_up,
            on_deliveries=give_up,
        ),
        lock_ms=setting("share.record.lock.duration.ms"),
        locks_max=setting("share.partition.max.record.locks"),
        committed=engine.group_setting(group_id, "share.isolation.level") == READ_COMMITTED,
        may_renew=engine.group_setting(group_id, "share.renew.acknowledge.enable"),
        reset=engine.group_setting(group_id, "share.auto.offset.reset"),
        dead_letters=topic,
    )
