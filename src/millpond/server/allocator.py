"""Keep the memory of large buffers instead of giving it back to the kernel after each of them.

A Fetch answer lives in buffers of about a megabyte for as long as the socket takes to drain. The C library
would map and unmap each of them, and the kernel would then clear every page anew: twice the CPU of the whole
read path (ADR 0004). So large blocks come from the heap, and a bounded rest of it stays when they are freed.

Only for a process that is a broker: a program that embeds one keeps its own settings.
"""

import ctypes
import logging

log = logging.getLogger(__name__)

# Blocks up to this size come from the heap; the most that glibc accepts on 64 bits.
MAPPED_BYTES_MIN = 32 * 1024 * 1024
# Free memory at the end of the heap that is kept; one full Fetch answer to a client with default settings.
KEPT_BYTES_MAX = 64 * 1024 * 1024

# mallopt's parameters in glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_large_buffers() -> bool:
    """Set the C library's allocator so; False where it has no such settings (musl, macOS)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    answers = (
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN),
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX),
    )
    done = answers == (1, 1)
    if not done:
        log.debug("the allocator refused to keep large buffers")
    return done
