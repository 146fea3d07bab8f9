"""Permits: never more requests at an engine than it has slots, over all workers of a gateway.

The master's `PermitLedger` knows how many permits each worker holds; a worker's `LocalPermits` how many of them it
uses. A worker with waiting requests says so (`Want`); the master grants what is free and recalls from others, idle ones
first. All of it is pure: messages go in, messages come out, in any interleaving; what is held never passes an engine's
slots while these do not shrink.
"""

from collections.abc import Mapping
from typing import TypeVar

from llmgw.schema.value import Value

_K = TypeVar("_K")

_FAIR_GAP = 2
"""A worker that could use more itself gives a permit away only to one that holds two less (or none): else permits
would go back and forth for nothing."""


class Grant(Value, frozen=True, kw_only=True, tag="grant"):
    """Master to worker: `count` more permits of a pool."""

    pool: str
    count: int


class Recall(Value, frozen=True, kw_only=True, tag="recall"):
    """Master to worker: give `count` permits back, idle ones at once, the others as requests end."""

    pool: str
    count: int


class Want(Value, frozen=True, kw_only=True, tag="want"):
    """Worker to master: how many requests of a model wait for a permit now."""

    model: str
    count: int


class Returned(Value, frozen=True, kw_only=True, tag="returned"):
    """Worker to master: `count` permits come back; `owed` more will when requests end."""

    pool: str
    count: int
    owed: int


class Pool(Value, frozen=True, kw_only=True):
    """One engine's slots."""

    model: str
    capacity: int


Orders = list[tuple[int, Grant | Recall]]
"""Messages to workers, by worker number."""


class LocalPermits:
    """What one worker holds and uses."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._owed: dict[str, int] = {}

    def used(self, pool: str) -> int:
        """Requests of this worker at the pool's engine now."""
        return self._used.get(pool, 0)

    def free(self, pool: str) -> int:
        """Permits held and not in use."""
        return self._held.get(pool, 0) - self._used.get(pool, 0)

    def take(self, pool: str) -> None:
        """Use a free permit."""
        self._used[pool] = self._used.get(pool, 0) + 1

    def release(self, pool: str) -> Returned | None:
        """End a use. Gives the message to send when the permit is owed to the master."""
        self._used[pool] -= 1
        return self._pay(pool) if self._owed.get(pool) else None

    def granted(self, grant: Grant) -> Returned | None:
        """Take in a grant. Gives the message to send when permits are still owed."""
        self._held[grant.pool] = self._held.get(grant.pool, 0) + grant.count
        return self._pay(grant.pool) if self._owed.get(grant.pool) else None

    def recalled(self, recall: Recall) -> Returned:
        """Take in a recall; the answer is always sent, also when nothing is idle."""
        self._owed[recall.pool] = self._owed.get(recall.pool, 0) + recall.count
        return self._pay(recall.pool)

    def _pay(self, pool: str) -> Returned:
        count = min(self.free(pool), self._owed[pool])
        self._held[pool] = self._held.get(pool, 0) - count
        self._owed[pool] -= count
        answer = Returned(pool=pool, count=count, owed=self._owed[pool])
        if not self._held[pool] and not self._owed[pool]:
            for book in (self._held, self._used, self._owed):
                book.pop(pool, None)
        return answer


class _Account:
    """One pool in the ledger."""

    __slots__ = ("busy", "capacity", "issued", "model", "recalled")

    def __init__(self, model: str) -> None:
        self.model = model
        self.capacity = 0
        self.issued: dict[int, int] = {}
        self.recalled: dict[int, int] = {}
        self.busy: set[int] = set()
        """Workers that answered a recall with a debt: they have nothing idle."""

    def free(self) -> int:
        return self.capacity - sum(self.issued.values())

    def lendable(self, worker: int) -> int:
        return self.issued.get(worker, 0) - self.recalled.get(worker, 0)


class PermitLedger:
    """What the master knows of permits. `workers` is how many workers there should be: each new one gets its share."""

    def __init__(self, *, workers: int) -> None:
        self._shares = max(workers, 1)
        self._workers: set[int] = set()
        self._accounts: dict[str, _Account] = {}
        self._wants: dict[int, dict[str, int]] = {}

    def join(self, worker: int) -> Orders:
        """Take on a worker with its share of what is free."""
        self._workers.add(worker)
        orders: Orders = []
        for pool, account in self._accounts.items():
            self._share(worker, pool, account, orders)
        return orders

    def leave(self, worker: int) -> Orders:
        """Forget a worker that ended; its permits are free again: its connections ended with it."""
        self._workers.discard(worker)
        self._wants.pop(worker, None)
        for account in self._accounts.values():
            account.issued.pop(worker, None)
            account.recalled.pop(worker, None)
            account.busy.discard(worker)
        return self._settle_all()

    def set_pools(self, pools: Mapping[str, Pool]) -> Orders:
        """Take over all engines' slots. A pool that is gone is recalled, and forgotten once its permits are back."""
        orders: Orders = []
        for gone in self._accounts.keys() - pools.keys():
            self._accounts[gone].capacity = 0
        for name, pool in pools.items():
            known = self._accounts.get(name)
            account = known or self._accounts.setdefault(name, _Account(pool.model))
            account.capacity = pool.capacity
            if known is None:
                for worker in sorted(self._workers):
                    self._share(worker, name, account, orders)
        return orders + self._settle_all()

    def want(self, worker: int, message: Want) -> Orders:
        """Take in how many requests of a model wait in a worker."""
        wants = self._wants.setdefault(worker, {})
        if message.count:
            wants[message.model] = message.count
        else:
            wants.pop(message.model, None)
        return self._settle(message.model)

    def returned(self, worker: int, message: Returned) -> Orders:
        """Take in permits that came back."""
        account = self._accounts.get(message.pool)
        if account is None or worker not in self._workers:
            return []
        _set(account.issued, worker, account.issued.get(worker, 0) - message.count)
        _set(account.recalled, worker, account.recalled.get(worker, 0) - message.count)
        if message.owed and account.recalled.get(worker):
            account.busy.add(worker)
        else:
            account.busy.discard(worker)
        return self._settle(account.model)

    def issued(self, pool: str) -> int:
        """Permits of a pool that workers hold."""
        account = self._accounts.get(pool)
        return sum(account.issued.values()) if account else 0

    def _share(self, worker: int, pool: str, account: _Account, orders: Orders) -> None:
        self._grant(worker, pool, min(account.free(), account.capacity // self._shares), orders)

    def _settle_all(self) -> Orders:
        return [order for model in {a.model for a in self._accounts.values()} for order in self._settle(model)]

    def _settle(self, model: str) -> Orders:
        orders: Orders = []
        accounts = {pool: account for pool, account in self._accounts.items() if account.model == model}
        for pool, account in accounts.items():
            self._recall_excess(pool, account, orders)
            if not account.capacity and not account.issued:
                del self._accounts[pool]
        self._grant_free(model, accounts, orders)
        self._recall_idle(model, accounts, orders)
        self._recall_fairly(model, accounts, orders)
        return orders

    def _recall_excess(self, pool: str, account: _Account, orders: Orders) -> None:
        excess = -account.free() - sum(account.recalled.values())
        while excess > 0:
            worker = max(account.issued, key=account.lendable)
            self._recall(worker, pool, account, orders)
            excess -= 1

    def _grant_free(self, model: str, accounts: Mapping[str, _Account], orders: Orders) -> None:
        for pool, account in accounts.items():
            for _ in range(account.free()):
                asking = self._asking(model)
                if not asking:
                    return
                worker = min(asking, key=lambda w: (_held(w, accounts), w))
                self._grant(worker, pool, 1, orders)
                _set(self._wants[worker], model, asking[worker] - 1)

    def _recall_idle(self, model: str, accounts: Mapping[str, _Account], orders: Orders) -> None:
        """Ask workers that may have idle permits: those that neither wait themselves nor said that all are in use."""
        asking = self._asking(model)
        fresh = sum(n for a in accounts.values() for worker, n in a.recalled.items() if worker not in a.busy)
        for _ in range(sum(asking.values()) - fresh):
            places = [
                (account.lendable(worker), worker, pool)
                for pool, account in accounts.items()
                for worker in account.issued
                if worker not in asking and worker not in account.busy and account.lendable(worker) > 0
            ]
            if not places:
                return
            _, worker, pool = max(places)
            self._recall(worker, pool, accounts[pool], orders)

    def _recall_fairly(self, model: str, accounts: Mapping[str, _Account], orders: Orders) -> None:
        """When nothing is idle: the next permits that come free go to workers that hold too few."""
        asking = self._asking(model)
        pending = sum(n for account in accounts.values() for n in account.recalled.values())
        for _ in range(sum(asking.values()) - pending):
            asker = min(asking, key=lambda w: (_held(w, accounts), w))
            own = _held(asker, accounts)
            places = [
                (_lendable(worker, accounts), account.lendable(worker), worker, pool)
                for pool, account in accounts.items()
                for worker in account.issued
                if worker != asker and account.lendable(worker) > 0
            ]
            gap = 1 if not own else _FAIR_GAP
            places = [place for place in places if place[0] - own >= gap]
            if not places:
                return
            _, _, worker, pool = max(places)
            self._recall(worker, pool, accounts[pool], orders)

    def _asking(self, model: str) -> dict[int, int]:
        return {worker: wants[model] for worker, wants in self._wants.items() if wants.get(model)}

    def _grant(self, worker: int, pool: str, count: int, orders: Orders) -> None:
        if count <= 0:
            return
        issued = self._accounts[pool].issued
        issued[worker] = issued.get(worker, 0) + count
        orders.append((worker, Grant(pool=pool, count=count)))

    def _recall(self, worker: int, pool: str, account: _Account, orders: Orders) -> None:
        account.recalled[worker] = account.recalled.get(worker, 0) + 1
        orders.append((worker, Recall(pool=pool, count=1)))


def _held(worker: int, accounts: Mapping[str, _Account]) -> int:
    return sum(account.issued.get(worker, 0) for account in accounts.values())


def _lendable(worker: int, accounts: Mapping[str, _Account]) -> int:
    return sum(account.lendable(worker) for account in accounts.values())


def _set(book: dict[_K, int], key: _K, value: int) -> None:
    if value > 0:
        book[key] = value
    else:
        book.pop(key, None)
