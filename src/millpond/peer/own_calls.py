"""Calls between nodes for which Kafka has no API: a table of typed values in an Envelope.

The envelope of a client's request that was sent on names no principal; the envelope of such a call names
``OWN_CALLS_PRINCIPAL``. Its data are a table (``base/fields.py``): the call's name under "question", and the
values of the request. A refusal comes back with its class and its text, because AMQP's clients are told more
than Kafka has codes for.

Each call has a file of its own, which makes an ``OwnCall`` of both directions; ``table.py`` lists them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from millpond.base.errors import MalformedData, MillpondError
from millpond.base.fields import Table, decode_table, encode_table
from millpond.engine.peers import PeerHandlers, PeerRequest, decode_error, encode_error
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

AnswerT = TypeVar("AnswerT")

# The principal of an envelope with such a call. Queues were the first to have calls of their own.
OWN_CALLS_PRINCIPAL: Final = b"millpond.queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCall(Generic[AnswerT]):
    """One kind of request as a table, and its answer, in both directions.

    ``name`` is sent to nodes of other versions: it stays as it is when the class gets another name.
    ``from_table`` and ``answer_from_table`` may raise ``KeyError``, ``TypeError`` and ``ValueError`` for a
    table that lacks something.
    """

    name: str
    kind: type[PeerRequest[AnswerT]]
    connection: ConnectionKind
    to_table: Callable[[Any], Table]
    from_table: Callable[[Table], PeerRequest[AnswerT]]
    answer_to_table: Callable[[AnswerT], Table]
    answer_from_table: Callable[[Table], AnswerT]


class OwnCalls:
    """All such calls, found by the class of a request and by the name in an envelope."""

    def __init__(self, calls: Iterable[OwnCall[Any]]) -> None:
        self._by_kind = {one.kind: one for one in calls}
        self._by_name = {one.name: one for one in self._by_kind.values()}
        assert len(self._by_kind) == len(self._by_name)

    @property
    def kinds(self) -> tuple[type[PeerRequest[Any]], ...]:
        """The classes of the requests."""
        return tuple(self._by_kind)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in envelopes."""
        return tuple(self._by_name)

    def peer_calls(self) -> tuple[PeerCall[Any], ...]:
        """The asking side of each, for the table of all calls."""
        return tuple(
            PeerCall(
                kind=one.kind,
                api_key=ApiKey.ENVELOPE,
                version=0,
                to_wire=self.to_wire,
                from_wire=self.from_wire,
                connection=one.connection,
            )
            for one in self._by_kind.values()
        )

    async def answer(self, message: EnvelopeRequest, handlers: PeerHandlers) -> EnvelopeResponse:
        """Have the node's handlers answer an envelope. Raises ``MalformedData``."""
        question = self.question_of(message)
        try:
            answer = await handlers.answer(question)
        except MillpondError as error:
            return self.answer_to_wire(question, None, error)
        return self.answer_to_wire(question, answer)

    def to_wire(self, question: PeerRequest[Any]) -> EnvelopeRequest:
        """Put a request into an envelope."""
        call = self._by_kind[type(question)]
        table: Table = {"question": call.name, **call.to_table(question)}
        return EnvelopeRequest(
            request_data=encode_table(table), request_principal=OWN_CALLS_PRINCIPAL
        )

    def question_of(self, message: EnvelopeRequest) -> PeerRequest[Any]:
        """Take the request out of an envelope. Raises ``MalformedData``."""
        table = decode_table(bytes(message.request_data))
        call = self._by_name.get(str(table.get("question")))
        if call is None:
            raise MalformedData(
                f"this node does not know the call {table.get('question')!r}; upgrade it"
            )
        try:
            return call.from_table(table)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedData(f"a call of {call.name} lacks something: {error!r}") from None

    def answer_to_wire(
        self, question: PeerRequest[Any], answer: object, error: MillpondError | None = None
    ) -> EnvelopeResponse:
        """Put an answer into an envelope, or the reason why there is none."""
        if error is not None:
            table: Table = {"error": cast("Any", encode_error(error))}
        else:
            table = self._by_kind[type(question)].answer_to_table(answer)
        return EnvelopeResponse(response_data=encode_table(table))

    def from_wire(self, question: PeerRequest[Any], message: EnvelopeResponse) -> Any:
        """Take the answer out of an envelope. Raises what the peer refused with."""
        raise_refusal(message.error_code)
        table = decode_table(bytes(message.response_data or b""))
        if "error" in table:
            raise decode_error(table["error"])
        call = self._by_kind[type(question)]
        try:
            return call.answer_from_table(table)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedData(f"an answer to {call.name} lacks something: {error!r}") from None


# --- values of tables -------------------------------------------------------------------------------


def int_of(value: object) -> int:
    """Return a number. Raises ``TypeError`` for anything else."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def bytes_of(value: object) -> bytes:
    """Return bytes. Raises ``TypeError`` for anything else."""
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is no bytes")
    return value


def texts_of(value: object) -> tuple[str, ...]:
    """Return a list of texts. Raises ``TypeError`` for anything else."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return tuple(str(one) for one in value)


def empty_answer(_answer: object) -> Table:
    """Encode the answer of a call that has none."""
    return {}


def no_answer(_table: Table) -> None:
    """Decode the answer of a call that has none."""
