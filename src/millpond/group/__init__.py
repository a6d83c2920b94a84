"""Groups of clients that share partitions, and the offsets that they commit.

Pure state machines. A host (``engine/coordinators/groups.py``) gives commands with the time, appends the
records that are decided, applies them and sends the answers. Nothing here knows a clock, a socket, the log's
files or a wire protocol. ``kind`` is the interface of a kind of group, ``kinds`` the list of them.
"""
