"""Threads, tasks, deadlines and the shares of the event loop."""
