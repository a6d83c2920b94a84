"""What a broker that nothing was declared on starts with, as RabbitMQ does."""

from typing import Final

from millpond.auth.permissions import hash_password
from millpond.rabbit.records import Fact, Permission, User, VirtualHost
from millpond.rabbit.topic_names import DEFAULT_VHOST

# May do everything, from this machine only.
DEFAULT_USER: Final = "guest"


def bootstrap_records(salt: bytes) -> list[Fact]:
    """One virtual host, and one administrator whose password is its name."""
    return [
        VirtualHost(name=DEFAULT_VHOST),
        User(
            name=DEFAULT_USER,
            password_hash=hash_password(DEFAULT_USER.encode(), salt),
            tags=("administrator",),
        ),
        Permission(user=DEFAULT_USER, vhost=DEFAULT_VHOST, configure=".*", write=".*", read=".*"),
    ]
