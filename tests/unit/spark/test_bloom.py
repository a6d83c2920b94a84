"""The Bloom filter: never a wrong no, and wrong yeses as often as it says."""

from pathlib import Path

import pytest

np = pytest.importorskip("numpy")


def hashes(first: int, end: int) -> object:
    """Ids 1, 2, 3 ... after a hash as good as Spark's."""
    found = np.arange(first, end, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return (found ^ (found >> np.uint64(31))).view(np.int64)


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
def test_it_is_wrong_as_often_as_it_says(rate: float) -> None:
    from millpond.spark.pipelines.bloom import BloomFilter

    known = BloomFilter(100_000, rate)
    known.add(hashes(0, 100_000))
    assert known.seen(hashes(0, 100_000)).all(), "what was added is known, always"
    wrong = int(known.seen(hashes(1_000_000, 1_200_000)).sum()) / 200_000
    assert 0.8 * rate < wrong < 1.2 * rate
    assert known.rate == pytest.approx(rate, rel=0.05)


def test_a_full_filter_answers_for_one_more_turn() -> None:
    from millpond.spark.pipelines.bloom import BloomFilter

    known = BloomFilter(10_000, 0.001)
    known.add(hashes(0, 15_000))
    assert known.seen(hashes(0, 15_000)).all()
    known.add(hashes(15_000, 20_001))  # the third turn begins, the first is forgotten
    assert known.seen(hashes(10_000, 20_001)).all(), "the last 10,000 are known, whatever came"
    assert known.seen(hashes(0, 10_000)).mean() < 0.01
    assert known.rate <= 0.0021


def test_it_survives_on_disk(tmp_path: Path) -> None:
    from millpond.spark.pipelines.bloom import BloomFilter

    one, two = BloomFilter(1000, 0.01), BloomFilter(1000, 0.01)
    one.add(hashes(0, 1500))
    one.save(tmp_path / "ids.npz")
    two.load(tmp_path / "ids.npz")
    assert two.seen(hashes(0, 1500)).all()
    assert two.ids == one.ids == 500
    with pytest.raises(ValueError, match="keep --capacity"):
        BloomFilter(2000, 0.01).load(tmp_path / "ids.npz")
