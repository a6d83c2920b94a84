"""Whether the kernels in C are there to be used.

They are optional: without a compiler the installation goes on, and the twins in Python give the same
results. ``MILLPOND_PURE_PYTHON=1`` forces the twins. A kernel built from another state of the sources (an
old build in place) is left alone: it would be called with other arguments than it knows.
"""

import os

INTERFACE = 3


def _available() -> bool:
    if os.environ.get("MILLPOND_PURE_PYTHON", "0") not in ("", "0"):
        return False
    try:
        from millpond.record import _columns
    except ImportError:
        return False
    return _columns.INTERFACE == INTERFACE


COMPILED = _available()
