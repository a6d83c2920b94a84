"""The broker as a process: sockets, signals, files of settings, the real clock."""
