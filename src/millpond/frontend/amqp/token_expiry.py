"""The expiry of a connection's token.

As with RabbitMQ a connection does not end with its token: what it asks for is refused until it is renewed by
connection.update-secret, and consumers that are there go on.
"""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from millpond.frontend.amqp.logins import Known

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

log = logging.getLogger(__name__)

# The loop's timers use another clock than tokens do.
_LOOK_S_MAX = 3_600.0


class TokenExpiry:
    """The expiry of one session."""

    def __init__(self, session: "AmqpSession") -> None:
        self._session = session
        self._timer: asyncio.TimerHandle | None = None
        self.known = Known(name="")

    def begin(self, known: Known) -> None:
        """Watch the expiry of an authenticated client, also of one with another token."""
        self.known = known
        session = self._session
        session.user = known.name
        session.set_asker(replace(session.asker, scopes=known.scopes, is_expired=False))
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.stop()
        expires_s = self.known.expires_s
        if expires_s is None:
            return
        left_s = expires_s - self._session.frontend.engine.runtime.clock.now_ms() / 1000
        if left_s > 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(left_s, _LOOK_S_MAX), self._look)
            return
        session = self._session
        log.info(
            "peer=%s: the token of user %r has expired; what it asks for is refused until it is renewed",
            session.peer,
            self.known.name,
        )
        session.set_asker(replace(session.asker, is_expired=True))
