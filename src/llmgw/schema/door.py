"""What passes between a node's agent and its door.

The agent connects to `data_dir/door.sock` and sends `DoorUpdate` messages, always the whole set, each one frame of
`link.frames`. Once it listens, the door writes its `DoorAddress` as JSON into `data_dir/door.json` (atomically).
"""

from llmgw.schema.value import Value

HTTPS = "https://"
"""Before the address of a door that speaks mutual TLS."""


class DoorShard(Value, frozen=True, kw_only=True):
    """One engine that may be reached through the door."""

    id: str
    """Shard id: how gateways name the engine they want."""
    model: str
    endpoint: str
    """`http://127.0.0.1:PORT`."""
    key: str
    """The engine's key, which the door adds."""
    paths: tuple[str, ...]
    """Inference paths that may be asked, such as `/v1/chat/completions`; every other path is refused."""


class DoorReading(Value, frozen=True, kw_only=True):
    """The last reading of one engine's counters, served at `/stats`."""

    shard: str
    age_s: float
    """Age at sending: the door adds the time it holds the reading."""
    values: dict[str, float]


class DoorUpdate(Value, frozen=True, kw_only=True, tag="door_update"):
    """All engines of the node now. A shard that is not in it is no longer let through."""

    shards: tuple[DoorShard, ...] = ()
    readings: tuple[DoorReading, ...] = ()


class DoorAddress(Value, frozen=True, kw_only=True):
    """Where the door really listens."""

    listen: str
    """`host:port`, the port that was taken; `https://host:port` when it speaks mutual TLS."""
    pid: int
