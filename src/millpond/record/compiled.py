"""Loads the C kernels if they are available.

They are optional: without a compiler the installation succeeds, and the Python kernels give the same
results. ``MILLPOND_PURE_PYTHON=1`` disables them. A kernel built from another version of the sources (a
stale build in place) is not used: its functions may take other arguments.
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
