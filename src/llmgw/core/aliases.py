"""Which model a request to an alias goes to."""

from collections.abc import Collection

from llmgw.schema.alias import Alias

_SPREAD = 1 << 32
_MIX = 0x9E3779B97F4A7C15


def models_of(alias: Alias, key: int, *, known: Collection[str]) -> tuple[str, ...]:
    """Name the models to ask, in order: one of the shares by `key`, then the fallbacks.

    The same key gives the same model while shares stay as they are, and when a weight changes only as many keys move
    as the weight says. Models that are not `known` are passed over, their weight goes to the others.
    """
    shares = [share for share in alias.shares if share.model in known]
    fallbacks = [model for model in alias.fallbacks if model in known]
    if not shares:
        return tuple(dict.fromkeys(fallbacks))
    total = sum(share.weight for share in shares)
    point = (key * _MIX >> 32) % _SPREAD / _SPREAD * total
    chosen = shares[-1].model
    for share in shares:
        if point < share.weight:
            chosen = share.model
            break
        point -= share.weight
    return tuple(dict.fromkeys([chosen, *fallbacks]))


def reachable(alias: Alias) -> tuple[str, ...]:
    """Name all models that a request to it may reach."""
    return tuple(dict.fromkeys([*(share.model for share in alias.shares), *alias.fallbacks]))
