"""Routing by headers: all of some headers, or any of them, must match.

A binding with ``any`` is indexed under each of its headers. Bindings with ``all`` are grouped by their set of
headers (a *shape*), and in it by values; so a message is compared once with each shape that it may have,
however many bindings there are of it. A shape is indexed under its header that has the fewest shapes.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from millpond.base.errors import InvalidBinding
from millpond.base.fields import Table, type_name

TargetT = TypeVar("TargetT", bound=Hashable)
_PlaceT = TypeVar("_PlaceT", bound=Hashable)
_KeyT = TypeVar("_KeyT", bound=Hashable)
_FiledT = TypeVar("_FiledT")

MATCH = "x-match"
_MODES = ("all", "any", "all-with-x", "any-with-x")


def check_match(arguments: Table) -> None:
    """Raise ``InvalidBinding`` for an unknown ``x-match``."""
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
    """Return a hashable value that equals only what RabbitMQ considers the same: 1 is neither 1.0 nor
    true.
    """
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


class _Wanted:
    """The headers that one binding requires. A value of None requires only that the header exists."""

    __slots__ = ("any_will_do", "pairs")

    def __init__(self, arguments: Table) -> None:
        mode = arguments.get(MATCH, "all")
        assert isinstance(mode, str)
        self.any_will_do = mode.startswith("any")
        with_x = mode.endswith("-with-x")
        self.pairs: dict[str, Hashable | None] = {
            name: None if value is None else frozen(value)
            for name, value in arguments.items()
            if name != MATCH and (with_x or not name.startswith("x-"))
        }

    @property
    def headers(self) -> "_Headers":
        valued = sorted(name for name, value in self.pairs.items() if value is not None)
        bare = sorted(name for name, value in self.pairs.items() if value is None)
        return tuple(valued), tuple(bare)

    def values(self, headers: "_Headers") -> tuple[Hashable, ...]:
        return tuple(self.pairs[name] for name in headers[0])


# Headers with a required value, and headers that must only exist.
_Headers: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


class _Shape(Generic[TargetT]):
    """Bindings that require all of the same headers, by their values, each by its number."""

    __slots__ = ("bound", "filed_under", "headers")

    def __init__(self, headers: _Headers, filed_under: str) -> None:
        self.headers = headers
        self.filed_under = filed_under
        self.bound: dict[tuple[Hashable, ...], dict[int, TargetT]] = {}

    def match(self, message: Mapping[str, Hashable]) -> Iterable[TargetT]:
        valued, bare = self.headers
        for name in bare:
            if name not in message:
                return ()
        try:
            found = self.bound.get(tuple([message[name] for name in valued]))
        except KeyError:
            return ()
        return () if found is None else found.values()


class HeadersTable(Generic[TargetT]):
    """Targets by headers."""

    __slots__ = ("_any", "_bindings", "_by_name", "_next", "_shapes")

    def __init__(self) -> None:
        self._bindings: dict[int, _Wanted] = {}
        # Bindings with ``any``: by header.
        self._any: dict[tuple[str, Hashable | None], dict[int, TargetT]] = {}
        self._shapes: dict[_Headers, _Shape[TargetT]] = {}
        self._by_name: dict[str, dict[_Headers, _Shape[TargetT]]] = {}
        self._next = 0

    def add(self, arguments: Table, target: TargetT) -> int:
        """Add a binding. Return the number for ``remove``."""
        number, self._next = self._next, self._next + 1
        wanted = self._bindings[number] = _Wanted(arguments)
        if wanted.any_will_do:
            # A binding with ``any`` of no headers never matches.
            for place in wanted.pairs.items():
                self._any.setdefault(place, {})[number] = target
        else:
            headers = wanted.headers
            shape = self._shapes.get(headers) or self._new_shape(headers)
            shape.bound.setdefault(wanted.values(headers), {})[number] = target
        return number

    def remove(self, number: int) -> None:
        wanted = self._bindings.pop(number)
        if wanted.any_will_do:
            for place in wanted.pairs.items():
                _drop(self._any, place, number)
            return
        headers = wanted.headers
        shape = self._shapes[headers]
        _drop(shape.bound, wanted.values(headers), number)
        if not shape.bound:
            del self._shapes[headers]
            _drop(self._by_name, shape.filed_under, headers)

    def match(self, headers: Table) -> Iterator[TargetT]:
        """Yield all targets; a target of several bindings several times."""
        if not self._bindings:
            return
        message = {name: frozen(value) for name, value in headers.items()}
        for shape in self.shapes(message):
            yield from shape.match(message)
        if self._any:
            for name, value in message.items():
                for place in ((name, value), (name, None)):
                    yield from self._any.get(place, {}).values()

    def shapes(self, message: Iterable[str]) -> Iterator[_Shape[TargetT]]:
        """Yield the shapes to compare with a message that has these headers."""
        # A binding with ``all`` of no headers always matches.
        yield from self._by_name.get("", {}).values()
        for name in message:
            if name in self._by_name and name:
                yield from self._by_name[name].values()

    def _new_shape(self, headers: _Headers) -> _Shape[TargetT]:
        names = headers[0] + headers[1]
        by_name = self._by_name
        filed_under = min(names, key=lambda name: len(by_name.get(name, ())), default="")
        shape = self._shapes[headers] = _Shape(headers, filed_under)
        by_name.setdefault(filed_under, {})[headers] = shape
        return shape


def _drop(filed: dict[_PlaceT, dict[_KeyT, _FiledT]], place: _PlaceT, key: _KeyT) -> None:
    del filed[place][key]
    if not filed[place]:
        del filed[place]
