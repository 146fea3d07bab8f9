"""What the agent last said of its engines: kept in memory, so that the door lives on when the agent dies."""

from typing import NamedTuple

from llmgw.ports import Clock
from llmgw.relay.upstream import Endpoint
from llmgw.schema.door import DoorReading, DoorUpdate
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value
from llmgw.telemetry import log

_LOG = log.get(__name__)


class Target(NamedTuple):
    """One engine, ready to be asked."""

    endpoint: Endpoint
    authorization: bytes
    """Value of the `authorization` header the engine wants."""
    paths: frozenset[str]


class Stats(Value, frozen=True, kw_only=True):
    """`GET /stats`. Ages are those of the moment of answering."""

    readings: tuple[DoorReading, ...]


class Shards:
    """The last whole set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._targets: dict[str, Target] = {}
        self._readings: tuple[DoorReading, ...] = ()
        self._heard_at = clock.monotonic()

    def __len__(self) -> int:
        return len(self._targets)

    def update(self, update: DoorUpdate) -> None:
        """Replace the set. A shard whose endpoint is no URL is left out and logged."""
        targets: dict[str, Target] = {}
        for shard in update.shards:
            try:
                endpoint = Endpoint.from_url(shard.endpoint)
            except InvalidInput as error:
                _LOG.warning("door.shard_left_out", shard=shard.id, reason=error.message)
                continue
            targets[shard.id] = Target(endpoint, f"Bearer {shard.key}".encode(), frozenset(shard.paths))
        if targets.keys() != self._targets.keys():
            _LOG.info("door.shards", shards=sorted(targets))
        self._targets = targets
        self._readings = update.readings
        self._heard_at = self._clock.monotonic()

    def find(self, shard_id: str) -> Target | None:
        """Give the engine of a shard."""
        return self._targets.get(shard_id)

    def stats(self) -> Stats:
        """Give the last readings, each with its age now."""
        held_s = self._clock.monotonic() - self._heard_at
        return Stats(
            readings=tuple(
                DoorReading(shard=reading.shard, age_s=reading.age_s + held_s, values=reading.values)
                for reading in self._readings
            )
        )
