"""How the adapters of the node's fabrics are: rate, state, and what does not fit together."""

from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.agent.question import Question
from llmgw.hardware import infiniband
from llmgw.hardware.fabrics import with_ports
from llmgw.schema.fabric import Fabric

ADAPTERS_S = 3.0
"""A driver asks its adapter's firmware, which may be stuck."""
_INTERFACES = Path("/sys/class/net")


class FabricLook:
    """Looks at the adapters of the configured fabrics; at none when there are no fabrics."""

    def __init__(
        self, fabrics: Sequence[Fabric], news: Callable[[], None], *, adapters: Path = infiniband.CLASS
    ) -> None:
        self._fabrics = tuple(fabrics)
        self._adapters = adapters
        self._asking = Question(self._look, name="adapters", within_s=ADAPTERS_S, came_late=news)

    async def look(self, before: tuple[Fabric, ...]) -> tuple[Fabric, ...]:
        """Give the fabrics with their adapters as they are, or as they were `before` when they do not answer."""
        if not self._fabrics:
            return ()
        try:
            return await self._asking.answer()
        except (OSError, TimeoutError):
            return before

    def _look(self) -> tuple[Fabric, ...]:
        ports = infiniband.parse_ports(infiniband.read_tree(self._adapters))
        interfaces = {path.name for path in _INTERFACES.iterdir()} if _INTERFACES.is_dir() else None
        return tuple(with_ports(fabric, ports, interfaces) for fabric in self._fabrics)
