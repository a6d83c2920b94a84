"""Queues on the node that leads their topics."""
