"""Very many damaged batches through the kernels in C and their twins; for a build with sanitizers, too.

Faster than the property tests and less clever: seeded bytes are changed, cut, doubled and moved in sound
batches. The twin is asked about one in ``--compare``, as it takes most of the time.

    python -m tests.property.record.fuzz_kernels --count 1000000 --seed 1
"""

import argparse
import random
from array import array
from typing import Any

from millpond.base.errors import CorruptBatch
from millpond.record import Record, _columns, build_batch, columns_python, read_header
from millpond.record.batch import HEADER_BYTES
from millpond.record.columns_python import Unpacked
from millpond.record.inspection import check_python

NOW = 1_700_000_000_000
HOSTILE = [
    b"\x01\x01",
    b"\xff" * 4,
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x7f",
    b"\x80" * 4,
    b"\x00",
    b"\x01",
]


def sample(chance: random.Random) -> tuple[bytearray, int]:
    """A batch's records, not compressed, and how many there are."""
    records = [
        (
            NOW + chance.randrange(-1000, 100_000),
            chance.choice([None, b"", chance.randbytes(chance.choice([3, 63, 64, 200]))]),
            chance.choice([None, b"", chance.randbytes(chance.choice([3, 63, 64, 9000]))]),
            [("h" * chance.randrange(70), b"x" * n) for n in range(chance.choice([0, 0, 1, 3]))],
        )
        for _ in range(chance.randrange(1, 20))
    ]
    data = build_batch(records)
    return data[HEADER_BYTES:], read_header(data).record_count


def damage(chance: random.Random, payload: bytearray) -> None:
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        at = chance.randrange(len(payload) + 1)
        match chance.randrange(6):
            case 0:
                payload[at : at + 1] = chance.randbytes(1)
            case 1:
                hostile = chance.choice(HOSTILE)
                payload[at : at + len(hostile)] = hostile
            case 2:
                payload[at:at] = chance.choice(HOSTILE)
            case 3:
                del payload[at : at + chance.randrange(1, 40)]
            case 4:
                payload[at:at] = payload[: chance.randrange(60)]
            case _:
                if at < len(payload):
                    payload[at] ^= 1 << chance.randrange(8)


def expect(batch: Unpacked, headers: bool) -> object:
    try:
        return columns_python.decode([batch], 0, 2**63 - 1, 1000, headers)
    except CorruptBatch:
        return None


def fuzz(*, count: int, seed: int, compare: int) -> int:
    """Damage so many batches; how many of them were refused."""
    chance = random.Random(seed)
    samples = [sample(chance) for _ in range(200)]
    refused = 0
    for number in range(count):
        sound, written = chance.choice(samples)
        payload = bytearray(sound)
        damage(chance, payload)
        odd = chance.random() < 0.2  # a header that is not the records'
        last_delta = written - (chance.choice([1, 2]) if odd else 1)
        base = chance.choice([0, 2**63 - 2]) if odd else 0
        times = chance.choice([NOW, -(2**63), 2**63 - 1]) if odd else NOW
        records = max(0, written + chance.choice([0, 1, -1, 2**31])) if odd else written
        # An array ends with its last byte; bytes have one more, and a sanitizer would not see it read.
        exact: Any = array("B", payload)
        batch = Unpacked(exact, 0, len(payload), base, last_delta, times, NOW, odd, records)
        headers = chance.random() < 0.5
        decoded = _columns.decode([batch], 0, 2**63 - 1, 1000, headers)
        objects = _columns.records(batch.payload, *batch[3:], Record)
        refused += decoded is None
        assert (decoded is None) == (objects is None), batch
        bounds = chance.choice([(-(2**63), 2**63 - 1), (NOW, NOW + 50_000), (0, -1)])
        walked = _columns.check(exact, times, records, *bounds, chance.choice([0, 3, 1000]))
        # What passes the check is what a reader reads, record by record.
        passed = walked[:2] == (records, len(payload))
        assert not passed or last_delta != records - 1 or base or odd or objects is not None, batch
        if number % compare == 0:
            for positions_max in (0, 3, 1000):
                arguments = (exact, times, records, *bounds, positions_max)
                assert _columns.check(*arguments) == check_python(*arguments), batch
            assert decoded == expect(batch, headers), batch
    return refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare", type=int, default=10)
    options = parser.parse_args()
    refused = fuzz(count=options.count, seed=options.seed, compare=options.compare)
    print(f"{options.count} batches from seed {options.seed}, {refused} refused, none misread")


if __name__ == "__main__":
    main()
