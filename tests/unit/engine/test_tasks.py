"""Tasks that fail by mistake: some end, those that others rely on begin again."""

import asyncio

import pytest

from millpond.engine.runtime.tasks import TaskOwner


async def test_a_task_that_others_rely_on_begins_again_after_a_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = TaskOwner()
    await owner.start()
    rounds: list[str] = []

    async def look_after() -> None:
        rounds.append("begun")
        if len(rounds) == 1:
            raise ValueError("a mistake")

    await owner.keep(look_after, name="looking after")
    assert rounds == ["begun", "begun"], "and it is over when it returns"
    assert "task looking after failed" in caplog.text
    await owner.stop()


async def test_a_task_that_is_kept_ends_with_its_owner() -> None:
    owner = TaskOwner()
    await owner.start()

    async def always_fails() -> None:
        raise ValueError("a mistake")

    task = owner.keep(always_fails, name="hopeless")
    await asyncio.sleep(10)
    assert not task.done()
    await owner.stop()
    assert task.done()
