"""Which orders this node has obeyed, and which it must refuse. Pure."""

import re

from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.value import Value

_SHARD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


class Obeyed(Value, frozen=True, kw_only=True):
    """The highest (epoch, holder) and the generation obeyed. Kept on disk: a restart must not forget it."""

    epoch: int = 0
    holder: str | None = None
    generation: int = 0


def refusal(obeyed: Obeyed, order: DesiredState) -> str | None:
    """Say why an order must be refused; `None` to obey it.

    An order that only observes carries no set, so its generation is not compared.
    """
    if order.epoch < obeyed.epoch:
        return f"epoch {order.epoch} is older than epoch {obeyed.epoch}, which this node has obeyed"
    if order.epoch == obeyed.epoch and obeyed.holder is not None and order.holder != obeyed.holder:
        return f"epoch {order.epoch} belongs to {obeyed.holder}, not to {order.holder}"
    if order.mode is Mode.ENFORCE and order.generation < obeyed.generation:
        return f"generation {order.generation} is older than generation {obeyed.generation}, which this node has obeyed"
    strange = next((shard.id for shard in order.shards if not is_shard_id(shard.id)), None)
    return f"{strange!r} is no shard id" if strange is not None else None


def after(obeyed: Obeyed, order: DesiredState) -> Obeyed:
    """Give what to remember once an order is accepted."""
    generation = order.generation if order.mode is Mode.ENFORCE else obeyed.generation
    return Obeyed(epoch=order.epoch, holder=order.holder, generation=generation)


def is_shard_id(text: str) -> bool:
    """True for what may be a shard's id: it becomes part of file names here."""
    return _SHARD_ID.fullmatch(text) is not None
