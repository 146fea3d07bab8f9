"""Aliases: other names of models, under which clients ask for one of several."""

from datetime import datetime

from llmgw.schema.value import Value

MAX_SHARES = 16
MAX_FALLBACKS = 8


class Share(Value, frozen=True, kw_only=True):
    """One model behind an alias. `weight` is its part of the sum of all weights."""

    model: str
    weight: float = 1.0


class Alias(Value, frozen=True, kw_only=True):
    """A name for models. Models that are not there are passed over."""

    name: str
    shares: tuple[Share, ...]
    fallbacks: tuple[str, ...] = ()
    """Models that are asked, in this order, where the chosen one cannot answer."""
    revision: int = 1
    changed_at: datetime
