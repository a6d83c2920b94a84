"""Why a node is fenced, as one controller knows it."""

from dataclasses import replace
from uuid import UUID

import pytest

from millpond.metadata.fencing import FenceReason, FenceReasons, Fencing
from millpond.metadata.image import BrokerImage

NODE = BrokerImage(
    broker_id=3, broker_epoch=1, incarnation_id=UUID(int=1), end_points=(), rack=None, fenced=True
)


@pytest.mark.parametrize(
    ("broker", "reason"),
    [
        (NODE, FenceReason.UNKNOWN),
        (replace(NODE, in_controlled_shutdown=True), FenceReason.STOPPED),
    ],
)
def test_a_controller_that_took_over_knows_what_the_metadata_say(
    broker: BrokerImage, reason: FenceReason
) -> None:
    assert FenceReasons().why(broker, 1000) == Fencing(reason=reason)


def test_a_reason_keeps_its_time_while_it_lasts_and_another_begins_anew() -> None:
    reasons = FenceReasons()
    reasons.note(3, FenceReason.DISK, 1000, heard_ms=1000)
    reasons.note(3, FenceReason.DISK, 3000, heard_ms=3000)
    assert reasons.why(NODE, 4000) == Fencing(
        reason=FenceReason.DISK, fenced_ms=3000, silent_ms=1000
    )
    reasons.note(3, FenceReason.SILENT, 9000, heard_ms=3000)
    assert reasons.why(NODE, 9500) == Fencing(
        reason=FenceReason.SILENT, fenced_ms=500, silent_ms=6500
    )
    reasons.forget(3)
    assert reasons.why(NODE, 9500).reason is FenceReason.UNKNOWN


def test_a_node_that_was_never_heard_of_has_no_such_time() -> None:
    reasons = FenceReasons()
    reasons.note(3, FenceReason.SILENT, 1000, heard_ms=None)
    assert reasons.why(NODE, 1200).silent_ms == -1
