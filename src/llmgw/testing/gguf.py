"""Tiny models for tests and demos, written by code in milliseconds: nothing to download."""

from llmgw.testing.counting_model import write_counting_model
from llmgw.testing.random_model import write_random_model

__all__ = ["write_counting_model", "write_random_model"]
