"""The log core: segments, indexes, recovery. Files, but no sockets, no clock, no asyncio."""
