"""Share partitions whose records this node hands out while another node keeps their state.

The state is read once, when this node begins to hand records out. From then on every change is made here and
sent, one after the other; a member's acknowledgement is answered when the keeper has stored it. If the keeper
cannot be reached for long, or says that there is a newer leader, the cursor is dropped with all that was not
written, and read again for the next fetch: the records that members had acquired are available again.
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
# How often a keeper that may have moved or be loading is asked again, and after which time first.
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
    """A share partition whose records this node hands out and whose state another node keeps."""

    __slots__ = ("is_gone", "is_idle", "is_loading", "is_writing", "unwritten")

    def __init__(self, key: ShareKey, leader_epoch: int) -> None:
        super().__init__(key)
        self.leader_epoch = leader_epoch
        self.is_loading = True
        self.is_gone = False
        # A member left: the state is dropped once no member holds a record, and read for the next fetch.
        self.is_idle = False
        self.is_writing = False
        self.unwritten: deque[tuple[WriteShareState, asyncio.Future[None]]] = deque()


class RemoteShares:
    """The share partitions of this node whose state other nodes keep."""

    def __init__(self, services: ShareServices, keepers: ShareCoordinator) -> None:
        self._services = services
        self._keepers = keepers
        self._shares: dict[ShareKey, RemoteShare] = {}

    def __iter__(self) -> Iterator[RemoteShare]:
        return iter(tuple(self._shares.values()))

    def find(self, key: ShareKey) -> RemoteShare | None:
        """Return a share partition, which may still be loading."""
        return self._shares.get(key)

    def open(
        self, key: ShareKey, leader_epoch: int, first_offset: Callable[[], int]
    ) -> RemoteShare:
        """Return a share partition, loading it first if needed; a new one begins at ``first_offset()``."""
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
        """Apply a change and send it to the keeper; the future is done when the keeper has stored it."""
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
        """Have the keeper begin the share partition at an offset, and read it again after that."""
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
            log.warning("group=%s: not begun again: %s", begun.key.group_id, error)

    def drop(self, one: RemoteShare) -> None:
        """Drop the state: another node hands the records out now, or the state has to be read again."""
        if self._shares.get(one.key) is one:
            del self._shares[one.key]
        self._fail(one, NotCoordinator("another node hands the records out now"))

    def rest(self, one: RemoteShare) -> None:
        """Drop the state once no member holds a record, because a member has left.

        An administrator may give an empty group other positions at its keeper.
        """
        one.is_idle = True
        self._drop_if_idle(one)

    def _drop_if_idle(self, one: RemoteShare) -> None:
        if not one.is_idle or one.is_loading or one.unwritten:
            return
        if not one.cursor.count(State.ACQUIRED):
            self.drop(one)
            one.wake()

    # --- the keeper --------------------------------------------------------------------------------

    async def ask(self, key: ShareKey, request: PeerRequest[AnswerT]) -> AnswerT:
        """Ask the present keeper, several times if it may have moved. Raises the keeper's error."""
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
            raise CoordinatorNotAvailable(f"no node keeps the state of group {key.group_id!r} now")
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
                    "group=%s partition %d: changes are not written (%s); reading its state again",
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
