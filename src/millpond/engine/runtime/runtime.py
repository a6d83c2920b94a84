"""What every part of a node uses: clock, randomness, tasks, threads, and whether the node serves."""

from millpond.base import limits
from millpond.base.clock import Clock
from millpond.base.errors import ShuttingDown
from millpond.base.rng import Rng
from millpond.base.stalls import StallMeter
from millpond.engine.runtime.loop_watch import LoopWatch
from millpond.engine.runtime.offload import OffloadPool
from millpond.engine.runtime.tasks import TaskOwner
from millpond.engine.runtime.threads import RealThreads, Threads


class Runtime:
    """The runtime of one node. ``threads`` are real ones by default."""

    __slots__ = ("clock", "loop_watch", "offload", "rng", "running", "tasks", "threads")

    def __init__(self, clock: Clock, rng: Rng, threads: Threads | None = None) -> None:
        self.clock = clock
        self.rng = rng
        self.tasks = TaskOwner()
        self.threads = threads if threads is not None else RealThreads()
        # Threads for work of clients that would hold up the event loop.
        self.offload = OffloadPool(self.threads, "millpond-beside", limits.CHECKING_THREADS_MAX)
        self.loop_watch = LoopWatch(clock, self.tasks)
        # Whether the node serves: from the end of its start until it begins to stop.
        self.running = False

    @property
    def stalls(self) -> StallMeter:
        """The times in which the event loop did not run."""
        return self.loop_watch.stalls

    def check_running(self) -> None:
        """Raises ``ShuttingDown`` unless the node serves."""
        if not self.running:
            raise ShuttingDown("the broker is stopping")
