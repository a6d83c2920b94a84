"""A queue as pure state machines: which messages are ready, held or done, and which consumer gets which.

``queue_state.py`` is one queue, ``lane.py`` its messages of one priority, ``streams.py`` a stream. None of it
knows a protocol, a clock or a disk.
"""
