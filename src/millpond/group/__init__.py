"""Groups: who reads together, and how far they have read.

Pure state machines. A host (``engine/coordinators/groups.py``) gives commands with the time, appends the
facts that are decided, applies them and sends the answers. Nothing here knows a clock, a socket, the
log's files or a wire protocol.
"""
