"""What a gateway's master knows of replicas' caches, for workers and gateways that come later."""

from llmgw.core.prefix import BelievedCache, packed, unpacked
from llmgw.gateway.routes_view import KEPT_BLOCKS, cache_blocks, pool_of
from llmgw.gateway.worker_link import Placed
from llmgw.schema.view import View


class Placements:
    """By replica; an engine that was started anew begins empty."""

    def __init__(self) -> None:
        self._caches: dict[str, tuple[str, BelievedCache]] = {}

    def take(self, view: View | None) -> None:
        """Take over which replicas there are."""
        before, self._caches = self._caches, {}
        for route in view.routes.routes if view is not None and view.routes is not None else ():
            for replica in route.replicas:
                pool = pool_of(replica)
                known = before.get(replica.id)
                cache = known[1] if known is not None and known[0] == pool else BelievedCache(cache_blocks(replica))
                self._caches[replica.id] = (pool, cache)
        for _, cache in self._caches.values():
            cache.keep(KEPT_BLOCKS // len(self._caches))

    def add(self, placed: Placed) -> bool:
        """Note a prompt; False for a replica that is not known."""
        known = self._caches.get(placed.replica)
        if known is None:
            return False
        known[1].add(unpacked(placed.chain))
        return True

    def all(self) -> list[Placed]:
        """Give all of it, to be added elsewhere in this order."""
        return [
            Placed(replica=replica, chain=packed(chain))
            for replica, (_, cache) in self._caches.items()
            for chain in cache.all()
        ]
