"""Devices: GPUs, or MIG instances of one."""

import msgspec

from llmgw.schema.value import Value


class Device(Value, frozen=True, kw_only=True):
    """One schedulable device of a node. CPU nodes have none: class `cpu` claims cores and memory."""

    id: str
    """Stable for the card's life (NVIDIA's UUID); unique on the node."""
    index: int
    device_class: str = msgspec.field(name="class")
    """Kind of device, such as `h100-80gb` or `h100-80gb/mig-1g.10gb`."""
    memory_bytes: int | None = None
    numa_node: int | None = None
    pool: str | None = None
    """Memory it shares with the node's other devices that name the same: MIG compute instances of one GPU instance,
    partitions of one card. `None`: memory of its own."""
    problem: str | None = None
    """Why it is unhealthy (fault, foreign process); `None` when healthy."""
