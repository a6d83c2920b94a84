"""Bounds on what clients may use: memory, disk, request rates."""
