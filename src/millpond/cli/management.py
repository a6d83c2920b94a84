"""What the commands for AMQP share: the address of the management API, the user, and messages of errors.

They use RabbitMQ's HTTP API, so they administer a RabbitMQ as well as a Millpond.
"""

import base64
import functools
import http.client
import json
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Concatenate, ParamSpec
from urllib.parse import quote, urlsplit

import click

from millpond.base.errors import MillpondError
from millpond.cli.formats import parse_pairs
from millpond.cli.output import Exit, complain, forget_reader, is_terminal

P = ParamSpec("P")

DEFAULT_MANAGEMENT = "127.0.0.1:15672"
# Kinds of things that are in no virtual host.
_GLOBAL = frozenset({"vhost", "user"})
# The check that names every alarm of the cluster.
_ALARMS = ("health", "checks", "alarms")
_BARE = re.compile(r"[^/]+")


class NoManagement(MillpondError):
    """No management API answers at the address."""


class Unwilling(MillpondError):
    """The management API refused the request."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ManagementClient:
    """One broker's management API. ``vhost`` is the virtual host that a command is about."""

    def __init__(
        self, url: str, *, user: str, password: str, vhost: str = "/", timeout_s: float = 15
    ) -> None:
        self.url = url
        self.vhost = vhost
        self._user = user
        self._timeout_s = timeout_s
        code = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"authorization": f"Basic {code}", "content-type": "application/json"}

    def get(self, *place: str, **query: str) -> Any:
        return self._ask("GET", place, query=query)

    def put(self, *place: str, body: object = None) -> None:
        self._ask("PUT", place, body=body)

    def post(self, *place: str, body: object = None) -> Any:
        return self._ask("POST", place, body=body)

    def delete(self, *place: str, **query: str) -> None:
        self._ask("DELETE", place, query=query)

    def _ask(
        self,
        method: str,
        place: tuple[str, ...],
        *,
        body: object = None,
        query: dict[str, str] | None = None,
    ) -> Any:
        """Raises ``NoManagement`` and ``Unwilling``."""
        parts = urlsplit(self.url)
        path = f"{parts.path.rstrip('/')}/api/" + "/".join(quote(part, safe="") for part in place)
        if query:
            path += "?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout_s)
        is_connected = False
        try:
            data = json.dumps(body).encode() if body is not None else None
            connection.connect()
            is_connected = True
            connection.request(method, path, data, self._headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            if is_connected and isinstance(error, TimeoutError):
                reason = f"the broker at {self.url} did not answer within {self._timeout_s:g} s"
                raise NoManagement(f"{reason}{self._alarms(place)}") from None
            raise NoManagement(self._no_answer(error)) from None
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise Unwilling(answer.status, self._reason(answer.status, text))
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise NoManagement(f"what answers at {self.url} is no management API") from None

    def _alarms(self, place: tuple[str, ...]) -> str:
        """Which alarms block publishers, after a request that was not answered; empty if none does."""
        if place[:2] == _ALARMS[:2]:
            return ""
        try:
            self._ask("GET", _ALARMS)
        except Unwilling as error:
            return f"; {error}" if error.status == http.HTTPStatus.SERVICE_UNAVAILABLE else ""
        except NoManagement:
            return ""
        return ""

    def _no_answer(self, error: Exception) -> str:
        if isinstance(error, http.client.BadStatusLine) and str(error).startswith("AMQP"):
            return (
                f"{self.url} is for AMQP; the management API has a port of its own, "
                "10000 above it unless listeners says otherwise: --management HOST:PORT"
            )
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return (
            f"no management API answers at {self.url} ({why[0].lower()}{why[1:]}). "
            "Start the broker with `millpond up --amqp`, or say where it is: --management HOST:PORT"
        )

    def _reason(self, status: int, text: str) -> str:
        alarms: object = None
        try:
            said = json.loads(text)
            reason = said["reason"]
            alarms = said.get("alarms")
        except (ValueError, TypeError, KeyError, AttributeError):
            reason = text.strip() or f"HTTP status {status}"
        if not isinstance(reason, str):
            reason = json.dumps(reason)
        if isinstance(alarms, list):
            low = [f"low on {one.get('resource')} on {one.get('node')}" for one in alarms]
            return f"publishers are blocked: {', '.join(low)}"
        if reason == "Login failed":
            return f"user {self._user} cannot log in; give --user and --password"
        if reason == "Not management user":
            return (
                f"user {self._user} has no tag that lets it administer; "
                f"an administrator gives it one: millpond amqp user tags {self._user} management"
            )
        return reason.replace("Validation failed\n\n", "").strip()


def management_command(
    work: Callable[Concatenate[ManagementClient, P], int | None],
) -> Callable[..., None]:
    """Make a command of ``def work(client, **options)``; what it returns is the exit code."""

    @click.option(
        "--management",
        "-m",
        metavar="HOST:PORT",
        envvar="MILLPOND_MANAGEMENT",
        default=DEFAULT_MANAGEMENT,
        show_default=True,
        show_envvar=True,
        callback=_url,
        help="Where the management API listens; may be a URL.",
    )
    @click.option(
        "--user",
        "-u",
        envvar="MILLPOND_USER",
        default="guest",
        show_default=True,
        show_envvar=True,
        help="Who asks.",
    )
    @click.option(
        "--password",
        envvar="MILLPOND_PASSWORD",
        default="guest",
        show_default="guest",
        show_envvar=True,
        help="Its password.",
    )
    @click.option(
        "--vhost",
        "-V",
        envvar="MILLPOND_VHOST",
        default="/",
        show_default=True,
        show_envvar=True,
        help="The virtual host.",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0.1),
        default=15.0,
        show_default=True,
        help="How long to wait.",
    )
    @functools.wraps(work)
    def command(
        management: str,
        user: str,
        password: str,
        vhost: str,
        timeout_s: float,
        *args: P.args,
        **options: P.kwargs,
    ) -> None:
        client = ManagementClient(
            management, user=user, password=password, vhost=vhost, timeout_s=timeout_s
        )
        try:
            code = work(client, *args, **options) or Exit.DONE
        except NoManagement as error:
            complain(str(error))
            code = Exit.NO_BROKER
        except Unwilling as error:
            complain((error.status == 404 and _no_vhost(client)) or str(error))
            code = Exit.REFUSED
        except KeyboardInterrupt:
            code = Exit.INTERRUPTED
        except BrokenPipeError:
            forget_reader()
            code = Exit.DONE
        if code:
            click.get_current_context().exit(code)

    return command


def _url(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    url = f"http://{value}" if _BARE.fullmatch(value) else value
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None
    except ValueError:
        raise click.BadParameter(f"{value!r} is not HOST:PORT") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.BadParameter(f"{value!r} is neither HOST:PORT nor a URL of HTTP")
    return url if has_port or parts.scheme == "https" else f"{url.rstrip('/')}:15672"


def _argument_option(example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--argument",
        "-a",
        "arguments",
        metavar="NAME=VALUE",
        multiple=True,
        help=f"An argument, such as {example}; a value that is JSON is taken as such. May be repeated.",
    )


queue_argument_option = _argument_option("x-max-length=1000")
exchange_argument_option = _argument_option("alternate-exchange=lost")
binding_argument_option = _argument_option("x-match=all")


def values_of(texts: tuple[str, ...], what: str) -> dict[str, object]:
    """``name=value`` options, whose values are JSON if they look like it and text if not."""
    return {name: _value(text) for name, text in parse_pairs(texts, what)}


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def shown_arguments(arguments: dict[str, object], *, between: str = "\n") -> str:
    """As options are written, one a line, for people; JSON for programs."""
    if not is_terminal():
        return json.dumps(arguments) if arguments else ""
    return between.join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in arguments.items()
    )


def each(
    names: Iterable[str],
    kind: str,
    client: ManagementClient,
    act: Callable[[str], None],
    *,
    are_new: bool = False,
) -> int:
    """Do something with every one; what does not work is said, and the others are done anyway.

    Where they are new, what is missing is not they, but something that they need.
    """
    code = Exit.DONE
    for name in names:
        if not name:
            complain(f"a {kind} has a name; an empty one was given")
            code = Exit.REFUSED
            continue
        try:
            act(name)
        except Unwilling as error:
            text = f"{name}: {error}"
            if error.status == 404 and kind not in _GLOBAL and (missing := _no_vhost(client)):
                text = missing
            elif error.status == 404 and not are_new:
                text = _missing(client, kind, name)
            complain(text)
            code = Exit.REFUSED
    return code


def _no_vhost(client: ManagementClient) -> str:
    """That the virtual host is what is missing; empty if it is there."""
    try:
        client.get("vhosts", client.vhost)
    except Unwilling as error:
        return _missing(client, "vhost", client.vhost) if error.status == 404 else ""
    except NoManagement:
        return ""
    return ""


def _missing(client: ManagementClient, kind: str, name: str) -> str:
    """That there is no such thing, with the nearest that there is."""
    try:
        rows = client.get(f"{kind}s") if kind in _GLOBAL else client.get(f"{kind}s", client.vhost)
        near = get_close_matches(name, [row["name"] for row in rows], n=1)
    except (Unwilling, NoManagement):
        near = []
    where = "" if kind in _GLOBAL else f" in virtual host {client.vhost}"
    what = "virtual host" if kind == "vhost" else kind
    return f"there is no {what} {name}{where}" + (f". Did you mean {near[0]}?" if near else "")
