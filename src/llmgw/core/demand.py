"""Demand: how many replicas a model should have now."""

from llmgw.schema.model import Model


def desired_replicas(model: Model) -> int:
    """Give the number of replicas wanted now: its minimum, never more than its maximum."""
    return min(model.min, model.max)
