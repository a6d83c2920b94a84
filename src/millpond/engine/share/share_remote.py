"""Share partitions that are handed out here while another node keeps their state.

The state is read once, when this node begins to hand records out. From then on every change is made here and
sent, one after the other; whoever said something of a record is answered when the keeper has it. If the
keeper cannot be reached for long, or says that there is a newer leader, the cursor is given up with all that
was not written, and read again when somebody asks: who held a record then holds it no more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from millpond.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    MillpondError,
    NotCoordinator,
    PeerUnreachable,
    RequestTimedOut,
    ShuttingDown,
)
from millpond.cursor.ack import Delta
from millpond.cursor.runs import State
from millpond.engine.coordinators.durable import Durable
from millpond.engine.peers import (
    InitializeShareState,
    PeerRequest,
    ReadShareState,
    ShareStateRead,
    WriteShareState,
)
from millpond.engine.share.services import ShareServices
from millpond.engine.share.share_coordinator import ShareCoordinator
from millpond.engine.share.share_state import SharePartition
from millpond.group.share.records import ShareKey, ShareSnapshot

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

_ASK_TIMEOUT_MS = 5_000
# How often a keeper that may have moved or be reading is asked again, and after which time first.
_ATTEMPTS = 6
_BACKOFF_MS = 100
# A state that could not be read is not asked for again before this time.
_RELOAD_MS = 1_000

PASSING = (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    PeerUnreachable,
    RequestTimedOut,
)


class RemoteShare(SharePartition):
    """A share partition that is handed out here and kept elsewhere."""

    __slots__ = ("is_gone", "is_idle", "is_loading", "is_writing", "unwritten")

    def __init__(self, key: ShareKey, leader_epoch: int) -> None:
        super().__init__(key)
        self.leader_epoch = leader_epoch
        self.is_loading = True
        self.is_gone = False
        # Somebody left: once nobody holds a record it is given up, and read anew for whoever comes.
        self.is_idle = False
        self.is_writing = False
        self.unwritten: deque[tuple[WriteShareState, asyncio.Future[None]]] = deque()


class RemoteShares:
    """All of them on this node."""

    def __init__(self, services: ShareServices, keepers: ShareCoordinator) -> None:
        self._services = services
        self._keepers = keepers
        self._shares: dict[ShareKey, RemoteShare] = {}

    def __iter__(self) -> Iterator[RemoteShare]:
        return iter(tuple(self._shares.values()))

    def find(self, key: ShareKey) -> RemoteShare | None:
        """One that is handed out here, perhaps still being read."""
        return self._shares.get(key)

    def open(
        self, key: ShareKey, leader_epoch: int, first_offset: Callable[[], int]
    ) -> RemoteShare:
        """One that is handed out here, read from now on if it was not; ``first_offset`` is for a new one."""
        one = self._shares.get(key)
        if one is None or one.leader_epoch != leader_epoch:
            if one is not None:
                self.drop(one)
            one = self._shares[key] = RemoteShare(key, leader_epoch)
            try:
                self._services.runtime.tasks.spawn(
                    self._load(one, first_offset), name="share state"
                )
            except ShuttingDown:
                self.drop(one)
        return one

    def change(self, one: RemoteShare, delta: Delta) -> Durable:
        """Make a change here, and have it written; done when the keeper has it."""
        update = one.update(delta, leader_epoch=one.leader_epoch)
        one.cursor.apply(delta)
        if update is None:
            return one.unwritten[-1][1] if one.unwritten else None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        request = WriteShareState(
            key=one.key,
            state_epoch=one.state_epoch,
            leader_epoch=one.leader_epoch,
            start=update.start,
            batches=update.batches,
        )
        one.unwritten.append((request, future))
        if not one.is_writing:
            one.is_writing = True
            try:
                self._services.runtime.tasks.spawn(self._write(one), name="share state")
            except ShuttingDown:
                self._fail(one, NotCoordinator("the broker is stopping"))
        return future

    def restart(self, one: RemoteShare, start: int) -> None:
        """Begin anew at an offset: the keeper is told, and then read again."""
        self.drop(one)
        begun = InitializeShareState(key=one.key, state_epoch=one.state_epoch + 1, start=start)
        try:
            self._services.runtime.tasks.spawn(self._begin_anew(begun), name="share state")
        except ShuttingDown:
            return

    async def _begin_anew(self, begun: InitializeShareState) -> None:
        try:
            await self.ask(begun.key, begun)
        except MillpondError as error:
            log.warning("group=%s: not begun anew: %s", begun.key.group_id, error)

    def drop(self, one: RemoteShare) -> None:
        """It is handed out elsewhere now, or has to be read again."""
        if self._shares.get(one.key) is one:
            del self._shares[one.key]
        self._fail(one, NotCoordinator("the records are handed out elsewhere now"))

    def rest(self, one: RemoteShare) -> None:
        """A member has left. A group that is empty may be given other positions at its keeper, so what is
        known here is not kept for the next one who comes.
        """
        one.is_idle = True
        self._drop_if_idle(one)

    def _drop_if_idle(self, one: RemoteShare) -> None:
        if not one.is_idle or one.is_loading or one.unwritten:
            return
        if not one.cursor.count(State.ACQUIRED):
            self.drop(one)
            one.wake()

    # --- inside ------------------------------------------------------------------------------------

    async def ask(self, key: ShareKey, request: PeerRequest[AnswerT]) -> AnswerT:
        """Ask the keeper, whoever it is now, again and again for a while. Raises what it says."""
        backoff_ms = _BACKOFF_MS
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms *= 2
            try:
                return await self._ask_once(key, request)
            except PASSING as error:
                last = error
        raise last

    async def _ask_once(self, key: ShareKey, request: PeerRequest[AnswerT]) -> AnswerT:
        leader, peers = self._keepers.leader(key), self._services.peers
        if leader == self._services.info.node_id:
            return await self._services.peer_handlers.answer(request)
        if leader < 0 or peers is None:
            raise CoordinatorNotAvailable(f"nobody keeps the state of group {key.group_id!r} now")
        return await peers.call(leader, request, timeout_ms=_ASK_TIMEOUT_MS)

    async def _load(self, one: RemoteShare, first_offset: Callable[[], int]) -> None:
        try:
            read = await self.ask(
                one.key, ReadShareState(key=one.key, leader_epoch=one.leader_epoch)
            )
            if read.start < 0 and not one.is_gone:
                start = first_offset()
                begun = InitializeShareState(
                    key=one.key, state_epoch=read.state_epoch + 1, start=start
                )
                await self.ask(one.key, begun)
                read = ShareStateRead(state_epoch=begun.state_epoch, start=start)
        except MillpondError as error:
            log.warning(
                "group=%s partition %d: its state cannot be read (%s); trying later",
                one.key.group_id,
                one.key.partition,
                error,
            )
            await asyncio.sleep(_RELOAD_MS / 1000)
            self.drop(one)
            one.wake()
            return
        one.replay(
            ShareSnapshot(
                key=one.key,
                snapshot_epoch=0,
                state_epoch=read.state_epoch,
                leader_epoch=one.leader_epoch,
                start=read.start,
                batches=read.batches,
            ),
            -1,
        )
        one.is_loading = False
        one.wake()

    async def _write(self, one: RemoteShare) -> None:
        while one.unwritten and not one.is_gone:
            request, future = one.unwritten[0]
            try:
                await self.ask(one.key, request)
            except MillpondError as error:
                log.warning(
                    "group=%s partition %d: what became of records is not written (%s); reading anew",
                    one.key.group_id,
                    one.key.partition,
                    error,
                )
                self.drop(one)
                one.wake()
                return
            if one.unwritten and one.unwritten[0][1] is future:
                one.unwritten.popleft()
            if not future.done():
                future.set_result(None)
        one.is_writing = False
        self._drop_if_idle(one)

    def _fail(self, one: RemoteShare, error: MillpondError) -> None:
        one.is_gone = True
        while one.unwritten:
            _request, future = one.unwritten.popleft()
            if not future.done():
                future.set_exception(error)
