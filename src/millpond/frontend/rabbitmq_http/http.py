"""Requests and answers as values, and how the fields of a JSON body are read.

Fields are read as RabbitMQ reads them: its own command sends ``"durable": "true"``. What is wrong is raised
as ``Refused``, with RabbitMQ's words in it.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from millpond.base.errors import MillpondError
from millpond.base.fields import Table

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. ``target`` is the request target of the first line."""

    method: str
    target: str
    authorization: str = ""
    body: bytes = b""
    # ``host:port`` of the client.
    peer: str = "127.0.0.1:0"
    # The reason (``X-Reason``) for closing a connection.
    reason: str = ""

    @property
    def segments(self) -> tuple[str, ...]:
        """Return the parts of the path. A slash within a name comes as ``%2F``, so parts are cut first.

        Raises ``Refused`` for a part that is not UTF-8: with its bytes replaced it would name something else.
        """
        path = self.target.partition("?")[0]
        try:
            return tuple(unquote(part, errors="strict") for part in path.split("/") if part)
        except UnicodeDecodeError:
            raise bad_request("the path is not UTF-8") from None

    @property
    def query(self) -> dict[str, str]:
        """Return the fields of the query. Raises ``Refused`` for what is not UTF-8."""
        text = self.target.partition("?")[2]
        try:
            return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
        except UnicodeDecodeError:
            raise bad_request("the query is not UTF-8") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer."""

    status: int = HTTPStatus.OK
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(MillpondError):
    """A request that is not carried out: a status, and RabbitMQ's two words for why."""

    def __init__(self, status: int, error: str, reason: object) -> None:
        super().__init__(f"{error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason

    @property
    def response(self) -> Response:
        return said({"error": self.error, "reason": self.reason}, status=self.status)


def said(value: object, *, status: int = HTTPStatus.OK) -> Response:
    """Return an answer with a value as JSON."""
    return Response(status=status, body=as_json(value))


def as_json(value: object) -> bytes:
    """Return a value as JSON bytes."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_shown)
    return text.encode("utf-8", "replace")


def _shown(value: object) -> object:
    """Encode types of AMQP tables that JSON does not have."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def done(*, is_new: bool = False) -> Response:
    """Return an answer without a body."""
    return Response(status=HTTPStatus.CREATED if is_new else HTTPStatus.NO_CONTENT)


def not_found() -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, "Object Not Found", "Not Found")


def bad_request(reason: object) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "bad_request", reason)


def not_authorised(reason: str) -> Refused:
    return Refused(HTTPStatus.UNAUTHORIZED, "not_authorised", reason)


# --- bodies -------------------------------------------------------------------------------------------------

# Half of a surrogate pair, escaped; a pair that is whole has these, too.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(body: bytes, *, refusal: str) -> Any:
    """Decode a body of JSON in UTF-8. Raises ``Refused``.

    All texts in it can be written as UTF-8 again, and all numbers are finite: Python would take half of a
    surrogate pair, and ``NaN``, and nothing that keeps them could be written to the log or shown.
    """
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad_request("a string has half of a surrogate pair, which is no Unicode") from None
    except (ValueError, RecursionError):
        raise bad_request(refusal) from None
    return value


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is too large")
    return value


def object_of(request: Request, *, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the body as a JSON object; no body is an empty one. Raises ``Refused``."""
    value = read_json(request.body, refusal="not_json") if request.body.strip() else {}
    if not isinstance(value, dict):
        raise bad_request("not_json_object")
    missing = [name for name in required if name not in value]
    if missing:
        raise bad_request(f"[{','.join(f'{{key_missing,{name}}}' for name in missing)}]")
    return value


def boolean(values: Mapping[str, Any], name: str, default: bool = False) -> bool:
    value = values.get(name, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(["not_boolean", value])


def integer(values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = values.get(name, default)
    try:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise TypeError
        return int(value)
    except (TypeError, ValueError):
        raise bad_request(["not_integer", value]) from None


def text(values: Mapping[str, Any], name: str, default: str = "") -> str:
    value = values.get(name, default)
    if not isinstance(value, str):
        raise bad_request(["not_string", value])
    return value


def table(values: Mapping[str, Any], name: str) -> Table:
    """Arguments, headers, a definition: an object, or the empty list that PHP makes of one."""
    value = values.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request(["not_table", value])
    return dict(value)
