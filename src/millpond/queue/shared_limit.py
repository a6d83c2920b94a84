"""Turns of consumers that share one limit: those of a channel with a prefetch for all of it.

A consumer asks for room when its queue has messages for it. While there is room and no other consumer waits
it gets all of it. A consumer that asks when there is none, or when others wait, waits behind them. What
becomes free is offered in *rounds*: to as many of those that wait as there is room for, the first ones, in
equal shares. In a round only they get room. A consumer that has used up its share may have more messages and
waits again, behind all others; one that has not had fewer messages than that. What is left at the end of a
round is offered in the next one.

So no consumer whose queue has messages is passed over for more than one round for each that waits with it.
"""


class SharedLimit:
    """One channel's; consumers are known by their owners. How much room there is, the caller knows."""

    def __init__(self) -> None:
        # In the order in which they are served.
        self._waiting: dict[str, None] = {}
        # In a round: how much of what is offered to a consumer it has not taken.
        self._offers: dict[str, int] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether a consumer wants more than it got."""
        return bool(self._waiting)

    def room(self, owner: str, free: int) -> int:
        """How much a consumer may take that has messages to take, of what is free."""
        offered = self._offers.get(owner)
        if offered is not None:
            return max(0, min(free, offered))
        is_alone = len(self._waiting) == (owner in self._waiting)
        if free > 0 and is_alone and not self._offers:
            self._waiting.clear()
            return free
        self._waiting[owner] = None
        return 0

    def took(self, owner: str, count: int) -> None:
        """A consumer has been handed so many. Of one that need not acknowledge them, its whole share."""
        offered = self._offers.get(owner)
        if offered is None:
            return
        self._offers[owner] = max(0, offered - count)
        if offered <= count:
            self._waiting[owner] = None

    def begin(self, free: int) -> list[str]:
        """A round: the consumers to whom something is offered, in their order."""
        assert not self._offers
        count = min(free, len(self._waiting))
        if count <= 0:
            return []
        owners = [owner for owner, _place in zip(self._waiting, range(count), strict=False)]
        share, more = divmod(free, count)
        for number, owner in enumerate(owners):
            del self._waiting[owner]
            self._offers[owner] = share + (number < more)
        return owners

    def end(self) -> None:
        """The consumers of this round have taken what they want."""
        self._offers.clear()

    def forget(self, owner: str) -> None:
        """A consumer is gone."""
        self._waiting.pop(owner, None)
        if owner in self._offers:
            # The round goes on for the others.
            self._offers[owner] = 0

    def clear(self) -> None:
        """There is no limit any more, or another one: all ask anew."""
        self._waiting.clear()
        self._offers.clear()
