"""The broker without its protocols and its sockets. ``engine.api`` is the one door."""
