"""Regular expressions with look-around and back-references, matched in a bounded number of steps.

re2 matches in time that goes with the length of the text, but knows neither. Python's ``re`` knows both, and
may take longer than a life. This matcher takes the expression as Python parses it, makes a small
program of it, and walks the program and the text with a stack of places to try next. Without back-references
a place that was visited is not visited again, so the steps are at most the program's length times the text's;
in any case they are counted, and a search that takes more than ``STEPS_MAX`` ends with ``TooManySteps``.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, TypeAlias

# Steps of one search: some milliseconds, as there may be thousands of names. A usual pattern takes two or
# three for each of the 255 characters that a name may have, and eight where it looks ahead from each.
STEPS_MAX = 10_000

# Instructions that a pattern may become: repeats that are counted are written out.
PROGRAM_MAX = 5_000

Test: TypeAlias = Callable[[str], bool]

_CHAR, _SPLIT, _JUMP, _AT, _LOOK, _MATCH, _SAVE, _REFERENCE, _ATOMIC, _MOVED = range(10)

_REPEATS = (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)


class TooManySteps(Exception):
    """A search that was given up."""


class TooLarge(ValueError):
    """A pattern that becomes too large a program, or has what this matcher does not know."""


class BoundedPattern:
    """A compiled pattern. ``search`` raises ``TooManySteps``."""

    def __init__(self, pattern: str) -> None:
        """Raises ``re.error``, ``TooLarge``, ``RecursionError`` or ``OverflowError``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read otherwise
            tree = parser.parse(pattern)
        self._program: list[tuple[Any, ...]] = []
        self._has_references = False
        self._emit(tree, tree.state.flags)
        self._add(_MATCH)

    def search(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text."""
        run = _Run(self._program, text, remembers=not self._has_references)
        return any(run.match(0, start) >= 0 for start in range(len(text) + 1))

    # --- the program ---------------------------------------------------------------------------

    def _add(self, *instruction: Any) -> int:
        if len(self._program) >= PROGRAM_MAX:
            raise TooLarge("the pattern is too large")
        self._program.append(instruction)
        return len(self._program) - 1

    def _emit(self, items: Sequence[tuple[Any, Any]], flags: int) -> None:
        for operator, argument in items:
            self._emit_one(operator, argument, flags)

    def _emit_one(self, operator: Any, argument: Any, flags: int) -> None:
        if operator in (constants.LITERAL, constants.NOT_LITERAL, constants.ANY, constants.IN):
            self._add(_CHAR, _test(operator, argument, flags))
        elif operator is constants.AT:
            self._add(_AT, _place(argument, flags))
        elif operator is constants.BRANCH:
            self._emit_branch(argument[1], flags)
        elif operator is constants.SUBPATTERN:
            group, added, removed, items = argument
            inner = (flags | added) & ~removed
            if group is not None:
                self._add(_SAVE, 2 * group)
            self._emit(items, inner)
            if group is not None:
                self._add(_SAVE, 2 * group + 1)
        elif operator in _REPEATS:
            self._emit_repeat(operator, argument, flags)
        elif operator in (constants.ASSERT, constants.ASSERT_NOT):
            direction, items = argument
            width = items.getwidth()[0] if direction < 0 else 0
            at = self._add()
            self._emit(items, flags)
            self._add(_MATCH)
            negated = operator is constants.ASSERT_NOT
            self._program[at] = (_LOOK, negated, width, len(self._program))
        elif operator is constants.ATOMIC_GROUP:
            self._emit_atomic(lambda: self._emit(argument, flags))
        elif operator is constants.GROUPREF:
            self._has_references = True
            self._add(_REFERENCE, argument, bool(flags & re.IGNORECASE))
        else:
            raise TooLarge(f"{operator} is not known here")

    def _emit_branch(self, choices: Sequence[Any], flags: int) -> None:
        jumps: list[int] = []
        for choice in choices[:-1]:
            split = self._add()
            self._emit(choice, flags)
            jumps.append(self._add())
            self._program[split] = (_SPLIT, split + 1, len(self._program))
        self._emit(choices[-1], flags)
        for jump in jumps:
            self._program[jump] = (_JUMP, len(self._program))

    def _emit_repeat(self, operator: Any, argument: Any, flags: int) -> None:
        low, high, items = argument
        if operator is constants.POSSESSIVE_REPEAT:
            self._emit_atomic(lambda: self._emit_repeat(constants.MAX_REPEAT, argument, flags))
            return
        lazy = operator is constants.MIN_REPEAT
        for _ in range(low):
            self._emit(items, flags)
        if high is constants.MAXREPEAT:
            split = self._add()
            may_be_empty = items.getwidth()[0] == 0
            if may_be_empty:
                self._add(_SAVE, -split)
            self._emit(items, flags)
            if may_be_empty:
                self._add(_MOVED, -split)
            self._add(_JUMP, split)
            self._program[split] = _choice(split + 1, len(self._program), lazy)
            return
        splits: list[int] = []
        for _ in range(high - low):
            splits.append(self._add())
            self._emit(items, flags)
        for split in splits:
            self._program[split] = _choice(split + 1, len(self._program), lazy)

    def _emit_atomic(self, emit: Callable[[], None]) -> None:
        at = self._add()
        emit()
        self._add(_MATCH)
        self._program[at] = (_ATOMIC, len(self._program))


def _choice(inside: int, behind: int, lazy: bool) -> tuple[int, int, int]:
    return (_SPLIT, behind, inside) if lazy else (_SPLIT, inside, behind)


class _Run:
    """One search: what is known of the text, and how many steps are left."""

    def __init__(self, program: list[tuple[Any, ...]], text: str, *, remembers: bool) -> None:
        self._program = program
        self._text = text
        self._left = STEPS_MAX
        # Places from which no match is reached.
        self._hopeless: set[tuple[int, int]] = set()
        self._remembers = remembers
        # What groups held when the last match was found.
        self._groups: dict[int, int] = {}

    def match(self, start: int, position: int, saved: dict[int, int] | None = None) -> int:
        """Where a match of the program from ``start`` on ends that begins here; -1 if there is none."""
        program, text, end = self._program, self._text, len(self._text)
        remembers, hopeless = self._remembers, self._hopeless
        visited: set[tuple[int, int]] = set()
        stack: list[tuple[int, int, dict[int, int]]] = [(start, position, saved or {})]
        while stack:
            at, position, groups = stack.pop()
            while True:
                self._left -= 1
                if self._left < 0:
                    raise TooManySteps
                place = (at, position)
                if remembers:
                    if place in visited or place in hopeless:
                        break
                    visited.add(place)
                instruction = program[at]
                kind = instruction[0]
                if kind == _CHAR:
                    if position >= end or not instruction[1](text[position]):
                        break
                    at, position = at + 1, position + 1
                elif kind == _SPLIT:
                    if len(stack) >= STEPS_MAX:
                        raise TooManySteps
                    stack.append((instruction[2], position, groups))
                    at = instruction[1]
                elif kind == _JUMP:
                    at = instruction[1]
                elif kind == _AT:
                    if not instruction[1](text, position):
                        break
                    at += 1
                elif kind == _SAVE:
                    if not remembers:
                        groups = {**groups, instruction[1]: position}
                    at += 1
                elif kind == _LOOK:
                    _, negated, width, behind = instruction
                    begin = position - width
                    found = begin >= 0 and self.match(at + 1, begin, groups) >= 0
                    if found == negated:
                        break
                    if found:
                        groups = self._groups
                    at = behind
                elif kind == _ATOMIC:
                    position = self.match(at + 1, position, groups)
                    if position < 0:
                        break
                    at, groups = instruction[1], self._groups
                elif kind == _MOVED:
                    # Again without a step forward would be for ever; remembered places exclude that.
                    if not remembers and groups[instruction[1]] == position:
                        break
                    at += 1
                elif kind == _REFERENCE:
                    length = self._repeated(instruction, position, groups)
                    if length < 0:
                        break
                    at, position = at + 1, position + length
                else:
                    self._groups = groups
                    return position
        if remembers:
            hopeless |= visited
        return -1

    def _repeated(self, instruction: tuple[Any, ...], position: int, groups: dict[int, int]) -> int:
        """How long the text of a group is, if it stands here again; -1 if not."""
        _, group, ignores_case = instruction
        first, last = groups.get(2 * group, -1), groups.get(2 * group + 1, -1)
        if first < 0 or last < first:
            return -1
        wanted = self._text[first:last]
        found = self._text[position : position + len(wanted)]
        if ignores_case:
            wanted, found = wanted.lower(), found.lower()
        return len(wanted) if found == wanted else -1


# --- single characters and places ----------------------------------------------------------------

_CATEGORIES: dict[Any, Test] = {
    constants.CATEGORY_DIGIT: str.isdecimal,
    constants.CATEGORY_NOT_DIGIT: lambda sign: not sign.isdecimal(),
    constants.CATEGORY_SPACE: str.isspace,
    constants.CATEGORY_NOT_SPACE: lambda sign: not sign.isspace(),
    constants.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
    constants.CATEGORY_NOT_WORD: lambda sign: not (sign.isalnum() or sign == "_"),
}


def _test(operator: Any, argument: Any, flags: int) -> Test:
    test = _exact_test(operator, argument, flags)
    if not flags & re.IGNORECASE or operator is constants.ANY:
        return test
    if operator is constants.NOT_LITERAL or (
        operator is constants.IN and argument[0][0] is constants.NEGATE
    ):
        return lambda sign: test(sign) and test(sign.lower()) and test(sign.upper())
    return lambda sign: test(sign) or test(sign.lower()) or test(sign.upper())


def _exact_test(operator: Any, argument: Any, flags: int) -> Test:
    if operator is constants.ANY:
        return (lambda sign: True) if flags & re.DOTALL else (lambda sign: sign != "\n")
    if operator is constants.LITERAL:
        return chr(argument).__eq__
    if operator is constants.NOT_LITERAL:
        return chr(argument).__ne__
    negated = argument[0][0] is constants.NEGATE
    members = [_member(*item) for item in argument[1 if negated else 0 :]]
    if negated:
        return lambda sign: not any(test(sign) for test in members)
    return lambda sign: any(test(sign) for test in members)


def _member(operator: Any, argument: Any) -> Test:
    if operator is constants.LITERAL:
        return chr(argument).__eq__
    if operator is constants.RANGE:
        low, high = chr(argument[0]), chr(argument[1])
        return lambda sign: low <= sign <= high
    if operator is constants.CATEGORY and argument in _CATEGORIES:
        return _CATEGORIES[argument]
    raise TooLarge(f"{operator} is not known here")


def _place(kind: Any, flags: int) -> Callable[[str, int], bool]:
    many = bool(flags & re.MULTILINE)
    if kind is constants.AT_BEGINNING_STRING or (kind is constants.AT_BEGINNING and not many):
        return lambda text, position: position == 0
    if kind is constants.AT_BEGINNING:
        return lambda text, position: position == 0 or text[position - 1] == "\n"
    if kind is constants.AT_END_STRING:
        return lambda text, position: position == len(text)
    if kind is constants.AT_END:
        if many:
            return lambda text, position: position == len(text) or text[position] == "\n"
        return lambda text, position: text[position:] in ("", "\n")
    if kind is constants.AT_BOUNDARY:
        return _is_boundary
    if kind is constants.AT_NON_BOUNDARY:
        return lambda text, position: not _is_boundary(text, position)
    raise TooLarge(f"{kind} is not known here")


def _is_boundary(text: str, position: int) -> bool:
    is_word = _CATEGORIES[constants.CATEGORY_WORD]
    before = position > 0 and is_word(text[position - 1])
    after = position < len(text) and is_word(text[position])
    return before != after
