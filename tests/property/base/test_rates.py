"""Whoever waits as long as it is told never uses more than its quota."""

from hypothesis import given
from hypothesis import strategies as st

from millpond.base.rates import SampledRate, TokenBucket, throttle_ms

steps = st.lists(
    st.tuples(st.integers(0, 5_000), st.floats(0, 50_000, allow_nan=False)), min_size=1, max_size=60
)


class _Plain:
    """The same rules without a ring: the last samples in a list."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples, self.window_ms = samples, window_ms
        self.kept: list[list[float]] = []  # start, last, total

    def record(self, amount: float, now_ms: int) -> None:
        if not self.kept or now_ms - self.kept[-1][0] >= self.window_ms:
            self.kept = [*self.kept[-self.samples :], [now_ms, now_ms, 0.0]]
        self.kept[-1][1] = now_ms
        self.kept[-1][2] += amount

    def measure(self, now_ms: int) -> tuple[float, int]:
        for one in self.kept:
            if now_ms - one[1] >= self.samples * self.window_ms:
                one[:] = [now_ms, now_ms, 0.0]
        elapsed = now_ms - int(min(one[0] for one in self.kept))
        whole = elapsed // self.window_ms
        elapsed += max(self.samples - 1 - whole, 0) * self.window_ms
        elapsed = max(elapsed, 1)
        return sum(one[2] for one in self.kept) * 1000 / elapsed, elapsed


@given(steps=steps, samples=st.integers(1, 20), window_ms=st.sampled_from([100, 1000, 3000]))
def test_the_ring_of_samples_loses_nothing_that_counts(
    steps: list[tuple[int, float]], samples: int, window_ms: int
) -> None:
    rate = SampledRate(samples=samples, window_ms=window_ms)
    plain = _Plain(samples, window_ms)
    now_ms = 1_000_000
    for pause_ms, amount in steps:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        plain.record(amount, now_ms)
        measured, over_ms = rate.measure(now_ms)
        expected, expected_ms = plain.measure(now_ms)
        assert over_ms == expected_ms
        assert abs(measured - expected) <= 1e-6 * max(expected, 1)


@given(share=st.sampled_from([0.01, 0.3, 1.0, 3.0, 20.0]), bound=st.integers(10, 100_000))
def test_an_obedient_client_gets_its_rate_in_the_long_run(share: float, bound: int) -> None:
    rate = SampledRate(samples=11, window_ms=1000)
    now_ms, used = 0, 0.0
    while now_ms < 300_000:
        rate.record(bound * share, now_ms)
        used += bound * share
        measured, over_ms = rate.measure(now_ms)
        now_ms += max(throttle_ms(measured, bound, over_ms), 1)
    average = used * 1000 / now_ms
    # A burst as large as twenty windows is forgotten before it is paid for: Kafka's rule too.
    assert 0.9 * bound <= average <= (2.1 if share > 11 else 1.1) * bound


@given(steps=steps, bound=st.floats(1, 10_000), window_ms=st.sampled_from([100, 1000]))
def test_after_the_wait_nothing_is_owed(
    steps: list[tuple[int, float]], bound: float, window_ms: int
) -> None:
    bucket = TokenBucket(bound, samples=11, window_ms=window_ms)
    now_ms = 0
    for pause_ms, permits in steps:
        now_ms += pause_ms
        bucket.take(permits, now_ms)
        wait_ms = bucket.throttle_ms(now_ms)
        assert wait_ms >= 0
        now_ms += wait_ms
        # Rounded to a millisecond.
        assert bucket.throttle_ms(now_ms) <= 1


@given(steps=steps, samples=st.integers(1, 20))
def test_a_rate_is_never_below_nothing_nor_above_all_that_was_used(
    steps: list[tuple[int, float]], samples: int
) -> None:
    rate = SampledRate(samples=samples, window_ms=1000)
    now_ms, used = 0, 0.0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        used += amount
        measured, over_ms = rate.measure(now_ms)
        assert -1e-6 <= measured * over_ms / 1000 <= used + 1e-6
        assert over_ms >= max((samples - 1) * 1000, 1)
