"""One setting: its name, type, default and bounds; how its text is read, checked and written.

Rules: a value's text form is Kafka's (``true``, ``168``, ``delete,compact``); its Python form is one of
``Value``. ``parse`` and ``render`` are inverses for every value that passes the checks. Errors name the
setting, the value and what would be accepted. Knows no file, no protocol and no table of settings.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias

from millpond.base.errors import InvalidConfig

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class Members(Enum):
    """How a list can be said one by one, as RabbitMQ does, by names behind the setting's own and a dot."""

    NUMBERED = "<n>"  # in the order of the numbers
    NAMED = "<name>"  # kept as name=value


class ConfigType(IntEnum):
    """The numbers are those that Kafka's DescribeConfigs answers with."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_INTEGER_RANGES: dict[ConfigType, tuple[int, int]] = {
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDef:
    """One row of the table of settings.

    ``default`` of ``None`` means "not set": another setting decides, or nothing does. ``dynamic`` settings
    can be altered while the broker runs. ``effective`` is false for settings of Kafka's that are
    understood so that its files can be used, but that change nothing here. A setting with ``members`` is a
    list that can also be given one by one.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    dynamic: bool = False
    sensitive: bool = False
    effective: bool = True
    members: Members | None = None

    @property
    def explained(self) -> str:
        """What it is for, and whether it does anything."""
        return (
            self.doc if self.effective else f"{self.doc} Accepted, and has no effect in Millpond."
        )

    def parse(self, text: str) -> Value:
        """Read the text form. Raises ``InvalidConfig``."""
        text = text.strip()
        value: Value
        if self.type is ConfigType.BOOLEAN:
            value = self._parse_boolean(text)
        elif self.type in _INTEGER_RANGES:
            value = self._parse_integer(text)
        elif self.type is ConfigType.DOUBLE:
            value = self._parse_double(text)
        elif self.type is ConfigType.LIST:
            items = (item.strip() for item in text.split(","))
            value = tuple(dict.fromkeys(item for item in items if item))
        else:
            value = text
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raise ``InvalidConfig`` unless the value is within its bounds and choices."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                raise self._invalid(value, f"must be at least {_number(self.minimum)}")
            if self.maximum is not None and value > self.maximum:
                raise self._invalid(value, f"must be at most {_number(self.maximum)}")
        if self.choices:
            for item in value if isinstance(value, tuple) else (value,):
                if item is not None and item not in self.choices:
                    raise self._invalid(item, f"must be one of {', '.join(self.choices)}")

    def render(self, value: Value) -> str | None:
        """Write the text form; ``None`` stays ``None``."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def from_native(self, value: object) -> Value:
        """Take a value from TOML or a keyword argument: already typed, or text to be read."""
        if value is None:
            return None
        if isinstance(value, bool) and self.type is ConfigType.BOOLEAN:
            return value
        if isinstance(value, (list, tuple)):
            return self.parse(",".join(str(item) for item in value))
        if isinstance(value, bool):
            return self.parse("true" if value else "false")
        if isinstance(value, (str, int, float)):
            return self.parse(str(value))
        raise self._invalid(value, f"must be {self.type_words}")

    def member(self, name: str, value: object) -> tuple[str, str]:
        """The place of one in the list, and what it is there. Raises ``InvalidConfig``."""
        assert self.members is not None
        place, text = name.removeprefix(f"{self.name}."), str(value).strip()
        is_numbered = self.members is Members.NUMBERED
        if is_numbered and not place.isdecimal():
            raise InvalidConfig(f"{name}: behind {self.name} is a number, from 1 on")
        if not text or "," in text or (not is_numbered and "=" in place):
            raise InvalidConfig(f"{name}: one value, without a comma")
        if not is_numbered:
            return place, f"{place}={text}"
        self.check((text,))
        return f"{int(place):09}", text

    @property
    def type_words(self) -> str:
        """The type as people say it."""
        return _TYPE_WORDS[self.type]

    @property
    def valid_values(self) -> str:
        """What is accepted, in one phrase; empty when the type says it all."""
        if self.choices:
            return ", ".join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f"{_number(self.minimum)} to {_number(self.maximum)}"
        if self.minimum is not None:
            return f"at least {_number(self.minimum)}"
        if self.maximum is not None:
            return f"at most {_number(self.maximum)}"
        return ""

    def _parse_boolean(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in {"true", "false"}:
            raise self._invalid(text, "must be true or false")
        return lowered == "true"

    def _parse_integer(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise self._invalid(text, f"must be {self.type_words}") from None
        low, high = _INTEGER_RANGES[self.type]
        if not low <= value <= high:
            raise self._invalid(text, f"must be {self.type_words}")
        return value

    def _parse_double(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._invalid(text, "must be a number") from None

    def _invalid(self, value: object, reason: str) -> InvalidConfig:
        shown = "[hidden]" if self.sensitive else value
        return InvalidConfig(f"Invalid value {shown} for configuration {self.name}: {reason}")


_TYPE_WORDS: dict[ConfigType, str] = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a whole number (32-bit)",
    ConfigType.SHORT: "a whole number (16-bit)",
    ConfigType.LONG: "a whole number (64-bit)",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a secret",
}


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
