"""Where the broker meets the world: sockets, signals, files of settings, the real clock."""
