"""What a peer's refusal is here."""

import pytest

from millpond.base.errors import MillpondError, NotController, NotLeader, RequestTimedOut
from millpond.peer.calls import raise_refusal, refusal_of
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.error_codes import CODES, code_of


def test_no_error_is_no_refusal() -> None:
    assert refusal_of(ErrorCode.NONE) is None
    raise_refusal(ErrorCode.NONE)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NOT_CONTROLLER, NotController),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, NotLeader),
        (ErrorCode.REQUEST_TIMED_OUT, RequestTimedOut),
        (ErrorCode.UNKNOWN_SERVER_ERROR, MillpondError),
    ],
)
def test_a_code_is_the_class_that_it_was_made_from(
    code: ErrorCode, kind: type[MillpondError]
) -> None:
    with pytest.raises(kind, match="somebody else"):
        raise_refusal(code, "somebody else")


@pytest.mark.parametrize("code", sorted(set(CODES.values())))
def test_a_refusal_that_is_passed_on_keeps_its_code(code: ErrorCode) -> None:
    refusal = refusal_of(code)
    assert refusal is not None
    assert code_of(refusal) == code


def test_a_code_that_nobody_knows_is_named() -> None:
    assert str(refusal_of(9999)) == "the peer refused: error 9999"
