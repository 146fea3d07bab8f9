"""Aliases as operators ask for them and see them."""

from typing import Annotated

from msgspec import Meta

from llmgw.schema.alias import MAX_FALLBACKS, MAX_SHARES, Alias
from llmgw.schema.value import Value

# Only described here: the service checks, and says more when it refuses.
_Weight = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0})]


class PutShare(Value, frozen=True, kw_only=True):
    """One model behind an alias."""

    model: str
    weight: _Weight = 1.0


class PutAlias(Value, frozen=True, kw_only=True):
    """`PUT /api/v1/aliases/NAME`."""

    shares: Annotated[tuple[PutShare, ...], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_SHARES})]
    fallbacks: Annotated[tuple[str, ...], Meta(extra_json_schema={"maxItems": MAX_FALLBACKS})] = ()


class AliasList(Value, frozen=True, kw_only=True):
    """All aliases by name."""

    aliases: tuple[Alias, ...] = ()
