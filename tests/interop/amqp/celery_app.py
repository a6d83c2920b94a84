"""A small Celery application: the module that its workers are started with, and that its callers import.

Where the broker and the results are comes from the environment, as on a real machine.
"""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

BROKER = "CELERY_STORY_BROKER"
RESULTS = "CELERY_STORY_RESULTS"

# How long a task that waits for its end waits at most.
_FOREVER_S = 60


def make_app(broker: str, results: str) -> Celery:
    app = Celery("shop", broker=broker, backend=results, set_as_current=False)
    app.conf.update(
        task_default_queue="celery.story",
        task_track_started=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True},
        result_expires=300,
        timezone="UTC",
    )

    @app.task(name="shop.add", shared=False)
    def add(first: int, second: int) -> int:
        return first + second

    @app.task(name="shop.total", shared=False)
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(name="shop.flaky", shared=False, bind=True, max_retries=5)
    def flaky(self: Any, failures: int) -> str:
        if self.request.retries < failures:
            raise self.retry(countdown=0.05, exc=ValueError(f"no. {self.request.retries}"))
        return f"after {self.request.retries} retries"

    @app.task(name="shop.strict", shared=False, bind=True, autoretry_for=(OSError,), max_retries=2)
    def strict(self: Any) -> None:
        raise OSError(f"attempt {self.request.retries}")

    strict.default_retry_delay = 0

    @app.task(name="shop.clock", shared=False, bind=True)
    def clock(self: Any) -> float:
        return time.time()  # noqa: TID251 - compared with the caller's

    @app.task(name="shop.fatal", shared=False, bind=True, acks_late=True)
    def fatal(self: Any, diary: str) -> str:
        """Ends with its worker the first time that it runs."""
        again = self.request.delivery_info["redelivered"]
        with Path(diary).open("a") as file:
            file.write(f"{os.getppid()} {again}\n")
        if not again:
            time.sleep(_FOREVER_S)
        return f"redelivered={again}"

    return app


if BROKER in os.environ:
    app = make_app(os.environ[BROKER], os.environ[RESULTS])
