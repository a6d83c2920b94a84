"""Made-up traffic: the same for the same seed, and holding what it says it holds."""

import json
from collections import Counter

from tests.support.kafka.traffic import Message, Shape, Truth, clicks, service_logs

SHAPE = Shape(doubles=0.1, late=0.1, too_late=0.05, poison=0.05)


def some_clicks(seed: int) -> tuple[list[Message], Truth]:
    truth = Truth()
    return list(clicks(2000, seed=seed, start_ms=0, truth=truth, shape=SHAPE)), truth


def test_the_same_seed_gives_the_same_messages() -> None:
    assert some_clicks(7) == some_clicks(7)
    assert some_clicks(7)[0] != some_clicks(8)[0]


def test_the_truth_about_clicks_is_true() -> None:
    messages, truth = some_clicks(7)
    assert len(messages) == truth.messages == 2000 + truth.doubles
    good = Counter[str]()
    for message in messages:
        try:
            event = json.loads(message.value)
        except ValueError:
            continue
        if event["id"].startswith("c7-"):
            good[event["id"]] += 1
    assert len(good) == truth.events + truth.too_late == 2000 - truth.poison
    assert sum(good.values()) - len(good) == truth.doubles
    assert min(truth.doubles, truth.late, truth.too_late, truth.poison) > 30
    assert sum(truth.actions.values()) == truth.events
    assert [message.timestamp_ms for message in messages] == sorted(
        message.timestamp_ms for message in messages
    )


def test_one_service_has_a_bad_time() -> None:
    truth = Truth()
    lines = list(service_logs(5000, seed=1, start_ms=0, truth=truth))
    assert len(lines) == truth.messages == truth.events + truth.poison
    assert truth.levels["pay", "ERROR"] > 3 * truth.levels["cart", "ERROR"]
    assert sum(truth.levels.values()) == truth.events
