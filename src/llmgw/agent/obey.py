"""What to do so that what runs becomes what is wanted. Pure: one comparison, repeated whenever either side changes."""

from collections.abc import Iterable

from llmgw.schema.desired import DesiredShard, DesiredState, Mode
from llmgw.schema.replica import ShardPhase
from llmgw.schema.value import Value


class Running(Value, frozen=True, kw_only=True):
    """One shard that this node has, dead ones included: a death is kept until its shard is replaced or unwanted."""

    id: str
    attempt: int
    phase: ShardPhase


class Steps(Value, frozen=True, kw_only=True):
    """The next steps. Steps that must wait for others (start after stop) come with a later comparison."""

    start: tuple[DesiredShard, ...] = ()
    """Nothing of these runs; a dead earlier attempt is replaced."""
    stop: tuple[str, ...] = ()
    """Ids of engines to end, with their grace."""
    forget: tuple[str, ...] = ()
    """Ids of dead shards nobody wants any more."""


def obey(order: DesiredState | None, running: Iterable[Running]) -> Steps:
    """Compare. Without an order, or with one that only observes, nothing is done."""
    if order is None or order.mode is Mode.OBSERVE:
        return Steps()
    has = {shard.id: shard for shard in running}
    wanted = {shard.id: shard for shard in order.shards}
    return Steps(
        start=tuple(shard for shard in order.shards if _may_start(shard, has.get(shard.id))),
        stop=tuple(shard.id for shard in has.values() if _must_stop(shard, wanted.get(shard.id))),
        forget=tuple(shard.id for shard in has.values() if shard.phase is ShardPhase.DEAD and shard.id not in wanted),
    )


def _may_start(wanted: DesiredShard, has: Running | None) -> bool:
    """A death of the wanted attempt stands until the control plane orders another attempt."""
    if has is None:
        return True
    return has.phase is ShardPhase.DEAD and has.attempt < wanted.attempt


def _must_stop(has: Running, wanted: DesiredShard | None) -> bool:
    if has.phase in (ShardPhase.DEAD, ShardPhase.STOPPING):
        return False
    return wanted is None or has.attempt < wanted.attempt
