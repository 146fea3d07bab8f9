"""Hypothesis for a shared two-core machine: no deadlines, examples enough to find what matters."""

from hypothesis import HealthCheck, settings

settings.register_profile("llmgw", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("llmgw")
