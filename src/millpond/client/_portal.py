"""An event loop in its own thread, and calls that wait for it.

The thread keeps connections alive between calls, and works inside programs that run their own loop
(notebooks, Spark workers). Each call costs two thread switches, some tens of microseconds.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from millpond.client.errors import ClientError

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class Portal:
    """A loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="millpond-client", daemon=True
        )
        self._thread.start()
        self.is_closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in the loop and return its result. Ctrl-C while waiting cancels it."""
        if self.is_closed:
            work.close()
            raise ClientError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientError("the call was cancelled") from None
        except BaseException:
            future.cancel()
            raise

    def make(self, factory: Callable[[], T]) -> T:
        """Create an object that belongs to the loop."""

        async def work() -> T:
            return factory()

        try:
            return self.run(work())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel running work, and end the thread."""
        if self.is_closed:
            return

        async def shut_down() -> None:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

        try:
            self.run(shut_down())
        finally:
            self.is_closed = True
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


class blocking(Generic[P, T]):  # noqa: N801  (used like a decorator)
    """The blocking form of an ``async`` method: same arguments, same result, no ``await``.

    The owner has a ``_portal`` and, in ``_inner``, the object whose method this is.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._name = method.__name__
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, owner: Any, kind: type[Any]) -> Callable[P, T]:
        if owner is None:
            return self  # type: ignore[return-value]
        method = getattr(owner._inner, self._name)  # noqa: SLF001  (the owner asked for it)
        portal: Portal = owner._portal  # noqa: SLF001

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            result: T = portal.run(method(*args, **kwargs))
            return result

        return call


class in_loop(Generic[P, T]):  # noqa: N801
    """The form of a plain method that must run in the loop's thread."""

    def __init__(self, method: Callable[Concatenate[Any, P], T]) -> None:
        self._name = method.__name__
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, owner: Any, kind: type[Any]) -> Callable[P, T]:
        if owner is None:
            return self  # type: ignore[return-value]
        method = getattr(owner._inner, self._name)  # noqa: SLF001
        portal: Portal = owner._portal  # noqa: SLF001

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            async def work() -> T:
                result: T = method(*args, **kwargs)
                return result

            return portal.run(work())

        return call
