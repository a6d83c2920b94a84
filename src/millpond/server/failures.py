"""Why a broker did not start, with what to do about it."""

import errno
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

from millpond.base.errors import (
    DataDirectoryInUse,
    InvalidConfig,
    MetadataMissing,
    MillpondError,
    StorageFailure,
)
from millpond.log.checkpoint import META_PROPERTIES_FILE
from millpond.log.log_dir import WrongDirectory
from millpond.server.endpoints import host_port
from millpond.server.protocols import KAFKA, protocol_named, protocol_of, protocols


class ExitCode(IntEnum):
    """The exit codes of the process."""

    OK = 0
    FAILED = 1
    SETTINGS = 2
    ADDRESS = 3
    DATA = 4
    FORCED = 130


class StartFailed(MillpondError):
    """The broker cannot start: what happened, what to do about it, and the exit code."""

    def __init__(self, what: str, *advice: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.code = code

    def __str__(self) -> str:
        return "\n".join((self.what, *(f"  - {line}" for line in self.advice)))


def _in_code() -> Iterator[tuple[str, str]]:
    """Yield options of ``millpond up`` with the arguments of ``Broker`` that mean the same."""
    yield f"{KAFKA.option} 127.0.0.1:", "port="
    yield KAFKA.option, "port="
    for protocol in protocols():
        if protocol is KAFKA:
            continue
        yield f"{protocol.option} 127.0.0.1:", f"{protocol.name}="
        yield protocol.option, f"{protocol.name}="
    yield "--data", "data="


def told_in_code(failure: StartFailed) -> StartFailed:
    """Return the same failure with advice for a program that starts a broker in Python."""
    advice = list(failure.advice)
    for option, argument in _in_code():
        advice = [line.replace(option, argument) for line in advice]
    told = StartFailed(failure.what, *advice, code=failure.code)
    told.__cause__ = failure.__cause__
    return told


def bind_failed(host: str, port: int, error: OSError, *, name: str = "") -> StartFailed:
    """Explain an address that cannot be listened on; the listener's ``name`` tells which option moves it."""
    address = host_port(host, port)
    protocol, _scheme = protocol_of(name)
    other = "a broker you started before"
    if protocol.rival:
        other = f"{protocol.rival}, or {other}"
    if protocol.requires:
        required = protocol_named(protocol.requires)
        address += (
            f" ({required.title}'s {protocol.title}, {protocol.port_distance} above {required.title}'s port "
            f"unless {protocol.option} says otherwise)"
        )
    option, example = protocol.option, protocol.other_address
    if error.errno == errno.EADDRINUSE:
        return StartFailed(
            f"Cannot listen on {address}: another program already does.",
            f"choose another port: {option} {example}, or {option} 127.0.0.1:0 for any free one",
            f"or stop the other program; it may be {other}",
            code=ExitCode.ADDRESS,
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return StartFailed(
            f"Cannot listen on {address}: not permitted.",
            f"ports below 1024 need privileges; choose a higher one with {option}",
            code=ExitCode.ADDRESS,
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartFailed(
            f"Cannot listen on {address}: this machine does not have that address.",
            "listen on 127.0.0.1, on an address of this machine, or on every interface with an empty host",
            "an address that only clients see belongs in advertised.listeners",
            code=ExitCode.ADDRESS,
        )
    return StartFailed(
        f"Cannot listen on {address}: {error.strerror or error}.", code=ExitCode.ADDRESS
    )


def unknown_host(host: str, error: OSError) -> StartFailed:
    """A host name in ``listeners`` that has no address."""
    return StartFailed(
        f"Cannot listen on {host}: the name has no address ({error.strerror or error}).",
        "use an address of this machine, or 127.0.0.1",
        code=ExitCode.ADDRESS,
    )


def start_failed(error: Exception, *, data: Path) -> StartFailed:
    """Anything that went wrong while the data directory was opened."""
    if isinstance(error, StartFailed):
        return error
    if isinstance(error, InvalidConfig):
        return StartFailed(str(error), code=ExitCode.SETTINGS)
    if isinstance(error, WrongDirectory):
        return StartFailed(
            f"Cannot use the data in {data}: {error}",
            "set node.id to the one in the file, or choose another directory with --data",
            code=ExitCode.DATA,
        )
    if isinstance(error, DataDirectoryInUse):
        return StartFailed(
            f"Cannot use the data in {data}: {error}",
            "stop that broker, or give this one a directory of its own with --data",
            code=ExitCode.DATA,
        )
    if isinstance(error, OSError) or (
        isinstance(error, StorageFailure) and isinstance(error.__cause__, OSError)
    ):
        cause = error if isinstance(error, OSError) else error.__cause__
        assert isinstance(cause, OSError)
        return _data_unusable(data, cause)
    if isinstance(error, MetadataMissing):
        return StartFailed(f"Cannot use the data in {data}: {error}", code=ExitCode.DATA)
    if isinstance(error, StorageFailure):
        return StartFailed(
            f"Cannot use the data in {data}: {error}",
            "`millpond doctor` and `millpond log verify` show what is wrong with it",
            code=ExitCode.DATA,
        )
    if isinstance(error, MillpondError):
        return StartFailed(f"Cannot start: {error}")
    return StartFailed(
        f"Cannot start, by a fault of Millpond's own: {type(error).__name__}: {error}",
        "run again with --log-level debug and report what it says",
    )


def _holds_data(data: Path) -> bool:
    """Return whether a node has used this directory: in another one it would start as an empty broker."""
    try:
        return (data / META_PROPERTIES_FILE).exists()
    except OSError:
        return True


def _data_unusable(data: Path, error: OSError) -> StartFailed:
    advice: tuple[str, ...]
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            advice = ("make the directory writable for this user, or choose another with --data",)
        case errno.ENOSPC | errno.EDQUOT:
            advice = (f"free space on the disk of {data}, and start again",)
            if not _holds_data(data):
                advice = (f"{advice[0]}, or choose a directory on another disk with --data",)
        case errno.ENOTDIR | errno.EEXIST:
            advice = ("a file is in the way; choose another directory with --data",)
        case errno.EMFILE | errno.ENFILE:
            advice = ("raise the limit of open files (ulimit -n)",)
        case _:
            advice = ("`millpond doctor` may know more",)
    where = error.filename or data
    return StartFailed(
        f"Cannot use the data in {data}: {error.strerror or error} ({where}).",
        *advice,
        code=ExitCode.DATA,
    )
