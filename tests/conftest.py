"""Settings that every test shares.

Hypothesis profiles: ``dev`` (default, quick), ``ci`` (more examples, the same every run) and ``night``
(as many as patience allows). Choose with ``HYPOTHESIS_PROFILE``.
"""

import os

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("dev", max_examples=50, **_COMMON)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_COMMON)
settings.register_profile("night", max_examples=5_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
