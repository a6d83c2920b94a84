"""How many logins were tried, and how many of them succeeded, for each protocol since the node started."""

from typing import Any, Final

AMQP: Final = "amqp091"
HTTP: Final = "http"


class Attempts:
    """The login attempts of one node."""

    def __init__(self) -> None:
        # By protocol: successful and failed logins.
        self._counts: dict[str, tuple[int, int]] = {}

    def note(self, protocol: str, *, succeeded: bool) -> None:
        good, bad = self._counts.get(protocol, (0, 0))
        self._counts[protocol] = (good + 1, bad) if succeeded else (good, bad + 1)

    def reset(self) -> None:
        self._counts.clear()

    def rows(self) -> list[dict[str, Any]]:
        """Return the counts by RabbitMQ's names."""
        return [
            {
                "protocol": protocol,
                "auth_attempts": good + bad,
                "auth_attempts_failed": bad,
                "auth_attempts_succeeded": good,
            }
            for protocol, (good, bad) in sorted(self._counts.items())
        ]
