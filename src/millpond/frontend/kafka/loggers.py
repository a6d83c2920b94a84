"""The broker's loggers as Kafka's admin sees them: a resource whose settings are levels (KIP-412).

``root`` is the broker's own topmost logger: an application that embeds a broker keeps its logging to itself.
Changes hold until the process ends.
"""

import logging
from collections.abc import Iterable, Sequence

from millpond.base.errors import InvalidConfig, InvalidRequest
from millpond.engine.api import AlterOp

ROOT = "root"
_TOP = "millpond"

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_WORDS = ((50, "FATAL"), (40, "ERROR"), (30, "WARN"), (20, "INFO"), (0, "DEBUG"))


def check_node(name: str, node_id: int, *, word: str = "Node") -> None:
    """Raise ``InvalidRequest`` unless the resource is this node."""
    try:
        asked = int(name)
    except ValueError:
        raise InvalidRequest(f"{word} id must be an integer, but it is: {name}") from None
    if asked != node_id:
        raise InvalidRequest(
            f"Unexpected {word.lower()} id. Expected {node_id}, but received {name}"
        )


def logger_levels(names: Iterable[str] | None) -> dict[str, str]:
    """The level in force of each logger; of all, or of those named that exist."""
    wanted = _known() if names is None else [name for name in names if name in _known()]
    return {name: _word(_logger(name).getEffectiveLevel()) for name in wanted}


def alter_loggers(
    operations: Sequence[tuple[str, AlterOp, str | None]], *, validate_only: bool
) -> None:
    """Change levels, all of them or none. Raises ``InvalidRequest`` and ``InvalidConfig``."""
    known = _known()
    changes: list[tuple[str, int]] = []
    for name, operation, level in operations:
        if operation not in {AlterOp.SET, AlterOp.DELETE}:
            raise InvalidRequest(
                f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if operation is AlterOp.SET and level is None:
            raise InvalidRequest(f"Null value not supported for : {name}")
        if name not in known:
            raise InvalidConfig(f"Logger {name} does not exist!")
        if operation is AlterOp.DELETE:
            if name == ROOT:
                raise InvalidRequest("Removing the log level of the root logger is not allowed")
            changes.append((name, logging.NOTSET))
        elif level not in _LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(_LEVELS))}"
            )
        else:
            changes.append((name, _LEVELS[level]))
    if not validate_only:
        for name, number in changes:
            _logger(name).setLevel(number)


def _known() -> dict[str, None]:
    names = sorted(
        name for name in logging.Logger.manager.loggerDict if name.startswith(f"{_TOP}.")
    )
    return dict.fromkeys([ROOT, *names])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_TOP if name == ROOT else name)


def _word(level: int) -> str:
    return next(word for least, word in _WORDS if level >= least)
