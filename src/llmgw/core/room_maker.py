"""What to stop for a replica that fits nowhere: one stand-in of its own model, else what parked models left behind."""

from collections.abc import Callable

from llmgw.core.feasible import Rooms
from llmgw.core.placement import place
from llmgw.core.wants import StandIn, Want
from llmgw.schema.plan import Allocation, Removal
from llmgw.schema.replica import Replica


class RoomMaker:
    """Collects removals, want by want. Nothing is stopped for a want that would not fit even then."""

    def __init__(self, rooms: Callable[[], Rooms], corpses: tuple[Replica, ...]) -> None:
        """`rooms` makes the room there will be without stopping anything: once, or twice where there are corpses."""
        self.removals: list[Removal] = []
        self._rooms = rooms()
        self._cleared = self._rooms
        """The same room as if all corpses were gone."""
        self._corpses: dict[str, list[Replica]] = {}
        """By node."""
        self._stopped: set[str] = set()
        if corpses:
            self._cleared = rooms()
            for corpse in corpses:
                _release(self._cleared, corpse)
                for shard in corpse.shards:
                    self._corpses.setdefault(shard.allocation.node, []).append(corpse)

    def make(self, want: Want) -> bool:
        """Stop what makes room for a want; False, and nothing stopped, when nothing does."""
        return any(self._replaces(want, one) for one in want.stand_ins) or self._buries(want)

    def _replaces(self, want: Want, one: StandIn) -> bool:
        if one.replica.id in self._stopped:
            return False
        _release(self._rooms, one.replica)
        allocations = place(self._rooms, want.need, want.beside)
        if allocations is None:
            _hold(self._rooms, one.replica)
            return False
        if self._cleared is not self._rooms:
            _release(self._cleared, one.replica)
        self._claim(allocations)
        self._stop(one.replica, f"{one.reason}; makes room for its replacement")
        return True

    def _buries(self, want: Want) -> bool:
        if not self._corpses and not self._stopped:
            return False
        allocations = place(self._cleared, want.need, want.beside)
        if allocations is None:
            return False
        for allocation in allocations:
            for corpse in self._corpses.pop(allocation.node, ()):
                if corpse.id not in self._stopped:
                    _release(self._rooms, corpse)
                    self._stop(corpse, f"its model is parked; makes room for {want.model.model.name}")
        self._claim(allocations)
        return True

    def _claim(self, allocations: tuple[Allocation, ...]) -> None:
        for allocation in allocations:
            self._rooms.claim(allocation)
            if self._cleared is not self._rooms:
                self._cleared.claim(allocation)

    def _stop(self, replica: Replica, reason: str) -> None:
        self._stopped.add(replica.id)
        self.removals.append(Removal(replica=replica.id, reason=reason))


def _release(rooms: Rooms, replica: Replica) -> None:
    for shard in replica.shards:
        rooms.release(shard.allocation)


def _hold(rooms: Rooms, replica: Replica) -> None:
    for shard in replica.shards:
        rooms.claim(shard.allocation)
