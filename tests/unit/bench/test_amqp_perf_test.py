"""What perf-test prints, summed up."""

import pytest
from bench.amqp_cells import Load
from bench.amqp_perf_test import parse, summed_up
from bench.raw_client import BenchmarkError

# Printed by perf-test 2.16.0, shortened; the middle of a confirmed run and of one without confirms.
CONFIRMED = """\
id: test-1, starting producer #0, channel #0
id: test-1, time: 1.000s, sent: 100 msg/s, confirmed: 50 msg/s, nacked: 0 msg/s, received: 40 msg/s, \
min/median/75th/95th/99th consumer latency: 1/9000/9000/9000/9000 µs, confirm latency: 1/8/9/10/11 µs
id: test-1, time: 2.000s, sent: 300 msg/s, confirmed: 300 msg/s, nacked: 0 msg/s, received: 200 msg/s, \
min/median/75th/95th/99th consumer latency: 27/139/178/268/295 µs, confirm latency: 14/61/72/135/157 µs
id: test-1, time: 4.000s, sent: 600 msg/s, confirmed: 600 msg/s, nacked: 0 msg/s, received: 500 msg/s, \
min/median/75th/95th/99th consumer latency: 27/141/178/268/305 µs, confirm latency: 14/63/72/135/167 µs
test stopped (Reached time limit)
id: test-1, sending rate avg: 296 msg/s
"""


def test_rates_count_every_second_behind_the_warm_up_for_as_long_as_it_was() -> None:
    values = summed_up(parse(CONFIRMED), warmup_s=1.0)
    assert values["sent_per_s"] == pytest.approx((300 + 2 * 600) / 3)
    assert values["received_per_s"] == pytest.approx((200 + 2 * 500) / 3)
    assert values["messages"] == pytest.approx(100 + 300 + 2 * 600)
    assert (values["consumer_p50_us"], values["consumer_p99_us"]) == (140, 300)
    assert (values["confirm_p50_us"], values["confirm_p99_us"]) == (62, 162)


def test_a_publisher_alone_has_only_what_it_sent() -> None:
    text = "id: t, time: 1.000s, sent: 20 msg/s\nid: t, time: 2.001s, sent: 33530 msg/s\n"
    values = summed_up(parse(text), warmup_s=1.0)
    assert values["sent_per_s"] == pytest.approx(33530)
    assert "received_per_s" not in values


def test_a_run_without_a_line_is_a_failure() -> None:
    with pytest.raises(BenchmarkError, match="too few lines"):
        summed_up(parse("test stopped (Reached time limit)"), warmup_s=1.0)


def test_a_load_of_many_queues_is_a_pattern() -> None:
    words = Load(queues=2, producers=2, consumers=2).arguments(["bench7-1", "bench7-2"])
    assert words[3:9] == [
        *("--queue-pattern", "bench7-%d"),
        *("--queue-pattern-from", "1", "--queue-pattern-to", "2"),
    ]
