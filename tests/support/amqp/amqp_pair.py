"""A client's and a server's end of one AMQP connection, joined in memory."""

from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.events import ChannelOpened, Event, LoginOffered, OpenRequested
from millpond.wire.amqp.methods import ChannelOpenOk
from millpond.wire.amqp.order import Offer
from millpond.wire.amqp.server import ServerConnection
from millpond.wire.shape import received


class Pair:
    """Both ends. ``turn`` carries all that is to be sent, both ways, until nobody has anything to say."""

    def __init__(self, offer: Offer | None = None, wish: ConnectOptions | None = None) -> None:
        self.server = ServerConnection(offer or Offer())
        self.client = ClientConnection(wish)
        self.at_server: list[Event] = []
        self.at_client: list[Event] = []

    def turn(self) -> None:
        while True:
            up = b"".join(self.client.data_to_send())
            self.at_server += received(self.server, up)
            down = b"".join(self.server.data_to_send())
            self.at_client += received(self.client, down)
            if not up and not down:
                return

    def opened(self, *channels: int) -> "Pair":
        """Logged in, with these channels open and no events left."""
        self.turn()
        assert isinstance(self.at_server[-1], LoginOffered)
        self.server.accept_login()
        self.turn()
        assert isinstance(self.at_server[-1], OpenRequested)
        self.server.accept_open()
        self.turn()
        for channel in channels:
            self.client.open_channel(channel)
            self.turn()
            assert self.at_server[-1] == ChannelOpened(channel)
            self.server.send(channel, ChannelOpenOk())
        self.turn()
        self.at_server.clear()
        self.at_client.clear()
        return self
