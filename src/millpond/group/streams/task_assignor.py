"""Assigns the tasks of a streams group, as Kafka's sticky assignor does.

A task stays where it runs, or goes where its state is followed already, as long as that member has not got
its share; the rest goes to the process with the least to do for each of its members, and there to the member
with the least. Standby tasks are kept away from the process that runs the task. No warm-up tasks are made, as
in Kafka 4.3. Which of several equal processes or members comes first is not part of the contract.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from millpond.group.streams.records import Tasks, TaskSet
from millpond.group.streams.topology import ConfiguredSubtopology


class Task(NamedTuple):
    """One partition number of one subtopology."""

    part: str
    number: int


class Worker(NamedTuple):
    """A member, and the process in which it runs."""

    process_id: str
    member_id: str


def assign(
    workers: Iterable[Worker],
    targets: Mapping[str, TaskSet],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    *,
    standbys: int,
) -> dict[str, TaskSet]:
    """Return the tasks of each member, made from the last targets of the members."""
    plan = _Plan(tuple(workers), targets, subtopologies, standbys)
    running = [
        Task(part, number) for part, one in subtopologies.items() for number in range(one.tasks)
    ]
    plan.place_active(running)
    if standbys:
        plan.place_standbys([task for task in running if subtopologies[task.part].is_stateful])
    return plan.result()


@dataclass(slots=True)
class _Process:
    """The tasks that one process has so far."""

    place: int
    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[Task] = field(default_factory=set)
    active: dict[str, set[Task]] = field(default_factory=dict)
    standby: dict[str, set[Task]] = field(default_factory=dict)

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a task to a member. Return how many it has then."""
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        member_id = min(self.counts, key=self.counts.__getitem__)
        return self.add(member_id, task, is_active=is_active)


class _Share:
    """How many tasks a member shall have; less for the others when some have got as many as that."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = 0
        self._divide()

    def note(self, count: int) -> None:
        """Note how many tasks a member has now."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self._divide()

    def _divide(self) -> None:
        self.each = -(-self._tasks // self._members) if self._members else 0


class _ByLoad:
    """Processes, the one with the least tasks first."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._heap = [(process.load, process.place, process) for process in processes]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> _Process:
        return heappop(self._heap)[2]

    def push(self, process: _Process) -> None:
        heappush(self._heap, (process.load, process.place, process))


class _Plan:
    """An assignment in the making."""

    def __init__(
        self,
        workers: tuple[Worker, ...],
        targets: Mapping[str, TaskSet],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standbys: int,
    ) -> None:
        self._workers = workers
        self._standbys = standbys
        active = sum(one.tasks for one in subtopologies.values())
        stateful = sum(one.tasks for one in subtopologies.values() if one.is_stateful)
        self._active_share = _Share(active, len(workers))
        self._share = _Share(active + stateful * standbys, len(workers))
        self._processes: dict[str, _Process] = {}
        self._ran: dict[Task, Worker] = {}
        self._followed: dict[Task, list[Worker]] = {}
        for worker in workers:
            process = self._processes.setdefault(worker.process_id, _Process(len(self._processes)))
            process.counts[worker.member_id] = 0
            target = targets.get(worker.member_id, TaskSet())
            for task in _each(target.active):
                self._ran[task] = worker
            for task in _each(target.standby):
                self._followed.setdefault(task, []).append(worker)

    def _add(self, worker: Worker, task: Task, *, is_active: bool) -> None:
        count = self._processes[worker.process_id].add(worker.member_id, task, is_active=is_active)
        self._note(count, is_active=is_active)

    def _note(self, count: int, *, is_active: bool) -> None:
        if is_active:
            self._active_share.note(count)
        self._share.note(count)

    def _count(self, worker: Worker) -> int:
        return self._processes[worker.process_id].counts[worker.member_id]

    # --- tasks that run -----------------------------------------------------------------------------

    def place_active(self, tasks: list[Task]) -> None:
        left = sorted(tasks, key=lambda task: (task.number, task.part))
        left = [task for task in left if not self._keep(task, self._ran.get(task))]
        left = [task for task in left if not self._keep(task, self._least_loaded(task))]
        queue = _ByLoad(self._processes.values())
        for task in sorted(left):
            process = queue.pop()
            self._note(process.add_to_least_loaded(task, is_active=True), is_active=True)
            queue.push(process)

    def _keep(self, task: Task, worker: Worker | None) -> bool:
        """Let a member keep a task unless it has its share of tasks already."""
        if worker is None or self._count(worker) >= self._active_share.each:
            return False
        self._add(worker, task, is_active=True)
        return True

    def _least_loaded(self, task: Task, *, without_it: bool = False) -> Worker | None:
        """Return a member with few tasks that followed this one; ``without_it``: whose process lacks it."""
        workers = self._followed.get(task)
        if not workers:
            return None
        best = workers[0]
        if without_it and task in self._processes[best.process_id].tasks:
            return None
        for worker in workers[1:]:
            process = self._processes[worker.process_id]
            if (
                process.load < self._processes[best.process_id].load
                and not (without_it and task in process.tasks)
                and self._count(worker) < self._count(best)
            ):
                best = worker
        return best

    # --- tasks that follow --------------------------------------------------------------------------

    def place_standbys(self, tasks: list[Task]) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda one: (one.number, one.part), reverse=True):
            for placed in range(self._standbys):
                if not self._follow_on(task):
                    left.append((task, self._standbys - placed))
                    break
        queue = _ByLoad(self._processes.values())
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._follow_anywhere(queue, task):
                    break  # there are fewer processes than replicas wanted

    def _follow_on(self, task: Task) -> bool:
        """Let the member that ran a task, or one that followed it, follow it."""
        ran = self._ran.get(task)
        if ran is not None and task in self._processes[ran.process_id].tasks:
            ran = None
        for worker in (ran, self._least_loaded(task, without_it=True)):
            if worker is not None and self._count(worker) < self._share.each:
                self._add(worker, task, is_active=False)
                return True
        return False

    def _follow_anywhere(self, queue: _ByLoad, task: Task) -> bool:
        passed: list[_Process] = []
        found = False
        while queue and not found:
            process = queue.pop()
            passed.append(process)
            if task not in process.tasks:
                self._note(process.add_to_least_loaded(task, is_active=False), is_active=False)
                found = True
        for process in passed:
            queue.push(process)
        return found

    # --- the end ------------------------------------------------------------------------------------

    def result(self) -> dict[str, TaskSet]:
        return {
            worker.member_id: TaskSet(
                _by_part(self._processes[worker.process_id].active.get(worker.member_id, ())),
                _by_part(self._processes[worker.process_id].standby.get(worker.member_id, ())),
            )
            for worker in self._workers
        }


def _each(tasks: Tasks) -> Iterable[Task]:
    return (Task(part, number) for part, numbers in tasks.items() for number in numbers)


def _by_part(tasks: Iterable[Task]) -> Tasks:
    parts: dict[str, set[int]] = {}
    for task in tasks:
        parts.setdefault(task.part, set()).add(task.number)
    return {part: frozenset(parts[part]) for part in sorted(parts)}
