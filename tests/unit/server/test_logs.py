"""What log lines look like."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from millpond.server.logs import configure_logging


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    logger = logging.getLogger("millpond")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def lines_of(form: str, level: str = "info") -> list[str]:
    stream = io.StringIO()
    configure_logging(level=level, form=form, stream=stream)
    log = logging.getLogger("millpond.engine.api")
    log.debug("not said")
    log.info("partition=%s-%d: ready", "orders", 3)
    try:
        raise ValueError("boom")
    except ValueError:
        log.exception("failed")
    return stream.getvalue().splitlines()


def test_text_is_one_short_line() -> None:
    first, second, *traceback = lines_of("text")

    assert first.endswith("INFO    engine.api: partition=orders-3: ready")
    assert second.endswith("ERROR   engine.api: failed")
    assert traceback[-1] == "ValueError: boom"


def test_json_is_one_object_a_line() -> None:
    first, second = (json.loads(line) for line in lines_of("json"))

    assert first["level"] == "info"
    assert first["logger"] == "millpond.engine.api"
    assert first["message"] == "partition=orders-3: ready"
    assert first["time"].endswith("+00:00")
    assert "ValueError: boom" in second["exception"]


def test_the_level_is_a_limit() -> None:
    assert len([line for line in lines_of("json", "error") if line]) == 1


def test_nothing_is_sent_to_the_loggers_of_the_application(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines_of("text")

    assert caplog.records == []
