"""Bindings by headers: all of some headers, or any of them, must be there.

A binding is filed under one header that it asks for, or under each if any will do, so a message looks only at
bindings that agree with it in at least one header.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from millpond.base.errors import InvalidBinding
from millpond.base.fields import Table, type_name

TargetT = TypeVar("TargetT", bound=Hashable)

MATCH = "x-match"
_MODES = ("all", "any", "all-with-x", "any-with-x")


def check_match(arguments: Table) -> None:
    """Raises ``InvalidBinding`` for a way to match that there is not."""
    if MATCH not in arguments:
        return
    mode = arguments[MATCH]
    if not isinstance(mode, str):
        raise InvalidBinding(
            f"Invalid x-match field type {type_name(mode)} (value {mode!r}); expected longstr"
        )
    if mode not in _MODES:
        raise InvalidBinding(
            f'Invalid x-match field value <<"{mode}">>; '
            "expected all, any, all-with-x, or any-with-x"
        )


def frozen(value: object) -> Hashable:
    """A value in a form that equals only what RabbitMQ holds to be the same: 1 is neither 1.0 nor true."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, float):
        return "float", value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, dict):
        return "table", tuple(sorted((name, frozen(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return "array", tuple(map(frozen, value))
    return type(value).__name__, str(value)


class _Wanted(Generic[TargetT]):
    """What one binding asks for. A value of None asks only that the header be there."""

    __slots__ = ("any_will_do", "pairs", "target")

    def __init__(self, arguments: Table, target: TargetT) -> None:
        mode = arguments.get(MATCH, "all")
        assert isinstance(mode, str)
        self.target = target
        self.any_will_do = mode.startswith("any")
        with_x = mode.endswith("-with-x")
        self.pairs: dict[str, Hashable | None] = {
            name: None if value is None else frozen(value)
            for name, value in arguments.items()
            if name != MATCH and (with_x or not name.startswith("x-"))
        }

    def agrees(self, message: dict[str, Hashable]) -> bool:
        return all(
            name in message and (value is None or message[name] == value)
            for name, value in self.pairs.items()
        )

    def places(self) -> list[tuple[str, Hashable | None]]:
        """Where it is filed."""
        pairs = list(self.pairs.items())
        return pairs if self.any_will_do else pairs[:1]


class HeadersTable(Generic[TargetT]):
    """Targets by headers."""

    __slots__ = ("_always", "_bindings", "_filed", "_next")

    def __init__(self) -> None:
        self._bindings: dict[int, _Wanted[TargetT]] = {}
        self._filed: dict[tuple[str, Hashable | None], dict[int, _Wanted[TargetT]]] = {}
        self._always: dict[int, _Wanted[TargetT]] = {}
        self._next = 0

    def add(self, arguments: Table, target: TargetT) -> int:
        """Gives a number to ``remove`` it by."""
        number, self._next = self._next, self._next + 1
        wanted = _Wanted(arguments, target)
        self._bindings[number] = wanted
        if not wanted.pairs:
            # All of nothing is always there; any of nothing never is.
            if not wanted.any_will_do:
                self._always[number] = wanted
            return number
        for place in wanted.places():
            self._filed.setdefault(place, {})[number] = wanted
        return number

    def remove(self, number: int) -> None:
        wanted = self._bindings.pop(number)
        self._always.pop(number, None)
        for place in wanted.places():
            filed = self._filed[place]
            del filed[number]
            if not filed:
                del self._filed[place]

    def match(self, headers: Table) -> Iterator[TargetT]:
        """All targets, those of several bindings several times."""
        for wanted in self._always.values():
            yield wanted.target
        if not self._filed:
            return
        message = {name: frozen(value) for name, value in headers.items()}
        for name, value in message.items():
            for place in ((name, value), (name, None)):
                for wanted in self._filed.get(place, {}).values():
                    if wanted.any_will_do or wanted.agrees(message):
                        yield wanted.target
