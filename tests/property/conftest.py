"""Hypothesis for a shared two-core machine: no deadlines, examples enough to find what matters.

The quick suite plays the same examples each time, so that it says whether a change broke something; the full one
explores, with new and more examples each time.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile(
    "explore", deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("explore" if os.environ.get("LLMGW_TEST_FULL") else "same")
