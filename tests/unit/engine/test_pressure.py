"""When memory and disk count as running low, and that it is said once."""

import pytest

from millpond.base.errors import InvalidConfig
from millpond.base.pressure import Limits, Pressure, Readings, decide
from millpond.base.sizes import parse_size
from millpond.engine.limits.pressure import PressureWatch, limits_of
from millpond.metadata.configs import BrokerConfig

LIMITS = Limits(memory_bytes_max=1000, paging_bytes_max=500, disk_free_bytes_min=100)


@pytest.mark.parametrize(
    ("resident", "free", "low_on", "is_paging"),
    [
        (500, 100, (), False),
        (501, 100, (), True),
        (1000, 100, (), True),
        (1001, 100, ("memory",), True),
        (10, 99, ("disk",), False),
        (1001, 99, ("memory", "disk"), True),
    ],
)
def test_what_runs_low(resident: int, free: int, low_on: tuple[str, ...], is_paging: bool) -> None:
    readings = Readings(resident_bytes=resident, disk_free_bytes=free)
    assert decide(readings, LIMITS) == Pressure(low_on=low_on, is_paging=is_paging)


def test_a_client_is_told_what_runs_low() -> None:
    assert Pressure(low_on=("memory", "disk")).reason == "low on memory & disk"


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, (600, 300, 50_000_000)),
        ({"vm_memory_high_watermark.relative": 0.4}, (400, 200, 50_000_000)),
        ({"vm_memory_high_watermark.absolute": "2GB"}, (2 * 10**9, 10**9, 50_000_000)),
        ({"vm_memory_high_watermark_paging_ratio": 0.75}, (600, 450, 50_000_000)),
        ({"disk_free_limit.absolute": "1KiB"}, (600, 300, 1024)),
        ({"disk_free_limit.relative": 1.5}, (600, 300, 1500)),
    ],
)
def test_limits_have_rabbitmqs_names(
    settings: dict[str, float | str], limits: tuple[int, int, int]
) -> None:
    found = limits_of(BrokerConfig(settings).__getitem__, 1000)
    assert (found.memory_bytes_max, found.paging_bytes_max, found.disk_free_bytes_min) == limits


@pytest.mark.parametrize("wrong", ["", "many", "1.5GB", "-1", "5PB"])
def test_what_is_no_size(wrong: str) -> None:
    with pytest.raises(InvalidConfig, match="not a size"):
        parse_size(wrong)


class _Machine:
    """A machine whose readings are given."""

    total_bytes = 1000

    def __init__(self) -> None:
        self.resident_bytes = 0
        self.trimmed = 0

    def read(self) -> Readings:
        return Readings(resident_bytes=self.resident_bytes, disk_free_bytes=10**12)

    def give_back(self) -> None:
        self.trimmed += 1


def test_changes_are_said_once_and_settings_may_change() -> None:
    machine, said = _Machine(), list[Pressure]()
    settings: dict[str, float] = {}
    watch = PressureWatch(machine, lambda name: BrokerConfig(settings)[name], said.append)
    watch.look()
    assert said == []
    machine.resident_bytes = 601
    watch.look()
    watch.look()
    assert said == [Pressure(low_on=("memory",), is_paging=True)]
    assert machine.trimmed == 2
    settings["vm_memory_high_watermark.relative"] = 0.9
    watch.look()
    assert said[1:] == [Pressure(is_paging=True)]
    machine.resident_bytes = 1
    watch.look()
    assert said[2:] == [Pressure()]
