"""Permits are never over-issued, never leaked, and reach whoever waits: workers and messages in any interleaving."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llmgw.gateway.permits import Grant, LocalPermits, PermitLedger, Pool, Returned, Want

POOLS = {"p1": Pool(model="m", capacity=3), "p2": Pool(model="m", capacity=1), "q": Pool(model="n", capacity=2)}
MODELS = ("m", "n")
WORKERS = 3


class SimulatedWorker:
    """What `Admission` does with permits, without engines."""

    def __init__(self) -> None:
        self.permits = LocalPermits()
        self.waiting = dict.fromkeys(MODELS, 0)
        self.to_master: deque[object] = deque()
        self.from_master: deque[object] = deque()
        self.told = dict.fromkeys(MODELS, 0)
        self.running: list[str] = []

    def ask(self, model: str) -> None:
        self.waiting[model] += 1
        self.serve()

    def serve(self) -> None:
        for model in MODELS:
            for name, pool in POOLS.items():
                while pool.model == model and self.waiting[model] and self.permits.free(name) > 0:
                    self.permits.take(name)
                    self.running.append(name)
                    self.waiting[model] -= 1
            if self.told[model] != self.waiting[model]:
                self.told[model] = self.waiting[model]
                self.to_master.append(Want(model=model, count=self.waiting[model]))

    def end(self, at: int) -> None:
        owed = self.permits.release(self.running.pop(at % len(self.running)))
        if owed is not None:
            self.to_master.append(owed)
        self.serve()

    def hear(self, message: object) -> None:
        if isinstance(message, Grant):
            owed = self.permits.granted(message)
            self.told = {model: -1 if told else 0 for model, told in self.told.items()}
        else:
            owed = self.permits.recalled(message)
        if owed is not None:
            self.to_master.append(owed)
        self.serve()


class Permits(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = PermitLedger(workers=WORKERS)
        self.workers: dict[int, SimulatedWorker] = {}
        self.numbers = 0
        self.pools = dict(POOLS)
        self.carry_out(self.ledger.set_pools(self.pools))

    def carry_out(self, orders) -> None:
        for number, order in orders:
            self.workers[number].from_master.append(order)

    def to_master(self, number: int) -> None:
        message = self.workers[number].to_master.popleft()
        if isinstance(message, Returned):
            self.carry_out(self.ledger.returned(number, message))
        else:
            self.carry_out(self.ledger.want(number, message))

    @precondition(lambda self: len(self.workers) < WORKERS)
    @rule()
    def a_worker_comes(self) -> None:
        self.numbers += 1
        self.workers[self.numbers] = SimulatedWorker()
        self.carry_out(self.ledger.join(self.numbers))

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 9))
    def a_worker_dies(self, pick: int) -> None:
        number = sorted(self.workers)[pick % len(self.workers)]
        del self.workers[number]
        self.carry_out(self.ledger.leave(number))

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 9), model=st.sampled_from(MODELS))
    def a_request_comes(self, pick: int, model: str) -> None:
        self.workers[sorted(self.workers)[pick % len(self.workers)]].ask(model)

    @precondition(lambda self: any(one.running for one in self.workers.values()))
    @rule(pick=st.integers(0, 9), at=st.integers(0, 9))
    def a_request_ends(self, pick: int, at: int) -> None:
        busy = [one for _, one in sorted(self.workers.items()) if one.running]
        busy[pick % len(busy)].end(at)

    @precondition(lambda self: any(one.from_master or one.to_master for one in self.workers.values()))
    @rule(pick=st.integers(0, 9), down=st.sampled_from([True, False]))
    def a_message_arrives(self, *, pick: int, down: bool) -> None:
        lines = [(n, True) for n, one in sorted(self.workers.items()) if one.from_master]
        lines += [(n, False) for n, one in sorted(self.workers.items()) if one.to_master]
        lines = [line for line in lines if line[1] == down] or lines
        number, is_down = lines[pick % len(lines)]
        if is_down:
            self.workers[number].hear(self.workers[number].from_master.popleft())
        else:
            self.to_master(number)

    @rule(name=st.sampled_from(sorted(POOLS)))
    def an_engine_goes(self, name: str) -> None:
        self.pools.pop(name, None)
        self.carry_out(self.ledger.set_pools(self.pools))

    @rule(name=st.sampled_from(sorted(POOLS)))
    def an_engine_comes(self, name: str) -> None:
        self.pools[name] = POOLS[name]
        self.carry_out(self.ledger.set_pools(self.pools))

    @invariant()
    def no_engine_has_more_requests_than_slots(self) -> None:
        for name, pool in POOLS.items():
            assert sum(one.permits.used(name) for one in self.workers.values()) <= pool.capacity
            assert self.ledger.issued(name) <= pool.capacity

    def settle(self) -> None:
        rounds = 0
        while any(one.from_master or one.to_master for one in self.workers.values()):
            rounds += 1
            assert rounds < 200, "messages go back and forth for ever"
            for number, one in sorted(self.workers.items()):
                if one.from_master:
                    one.hear(one.from_master.popleft())
                if one.to_master:
                    self.to_master(number)

    def teardown(self) -> None:
        self.pools = dict(POOLS)
        self.carry_out(self.ledger.set_pools(self.pools))
        self.settle()
        # Work-conserving: nobody waits while a permit of the model is idle.
        for model in MODELS:
            names = [name for name, pool in POOLS.items() if pool.model == model]
            used = sum(one.permits.used(name) for name in names for one in self.workers.values())
            waiting = sum(one.waiting[model] for one in self.workers.values())
            assert waiting == 0 or used == sum(POOLS[name].capacity for name in names)
        # Everybody is served in the end, and nothing is lost or made up.
        for _ in range(1000):
            busy = [one for one in self.workers.values() if one.running]
            if not busy:
                break
            busy[0].end(0)
            self.settle()
        assert not any(any(one.waiting.values()) for one in self.workers.values())
        for name, pool in POOLS.items():
            held = sum(one.permits.free(name) + one.permits.used(name) for one in self.workers.values())
            assert held == self.ledger.issued(name) <= pool.capacity


Permits.TestCase.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
TestPermits = Permits.TestCase
