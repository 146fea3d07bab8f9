"""The lease, kept in a thread of its own, so that nothing on the serving loop can delay a renewal."""

import random
import threading
from collections.abc import Callable

from msgspec.structs import replace

from llmgw.core import lease
from llmgw.core.lease import Candidate, LeaseState, Numbers
from llmgw.ports import Clock, LeaseStore
from llmgw.schema.errors import StoreError
from llmgw.schema.lease import Fence, LeaseStatus, Standing
from llmgw.telemetry import log

_LOG = log.get(__name__)

_STOP_S = 3.0
"""A call that runs and the release, a deadline of 1 s each, and some room."""


class LeaseThread:
    """Carries out what `core.lease` decides. All methods may be called from any thread.

    It owns `store` and closes it at the end. `pause(seconds)` replaces waiting in tests.
    """

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        me: Candidate,
        *,
        numbers: Numbers | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._me = me
        self._numbers = numbers or Numbers()
        self._wake = threading.Event()
        self._pause = pause or self._wake.wait
        self._lock = threading.Lock()
        self._state = LeaseState()
        self._told: tuple[Standing, int | None, str | None] | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._problem: str | None = None
        self._random = random.Random()  # noqa: S311 - spreads load, keeps no secret
        # A daemon: a process that is otherwise dead must not go on renewing.
        self._thread = threading.Thread(target=self.run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to stand by, and to lead when it can be."""
        self._thread.start()

    def is_leader(self) -> bool:
        """True if this control plane leads at this very moment. Ask at each use; never keep the answer."""
        return lease.is_valid(self._state, self._numbers, self._clock.monotonic())

    def fence(self) -> Fence | None:
        """Give what writes and orders must carry; `None` unless it leads now."""
        return lease.fence(self._state, self._numbers, self._clock.monotonic())

    def status(self) -> LeaseStatus:
        """Give the lease as it is seen now."""
        seen = lease.status(self._state, self._numbers, self._clock.monotonic())
        return replace(seen, store_problem=self._problem)

    def raise_epoch(self, at_least: int) -> None:
        """Lead with an epoch of `at_least` or more, soon (see `on_change`): an agent obeyed a higher one than ours."""
        with self._lock:
            self._state = lease.epoch_at_least(self._state, at_least)
        self._wake.set()

    def step_down(self, for_s: float) -> None:
        """Stop leading at once, release the row, and stay a standby for `for_s` seconds, whoever takes it."""
        with self._lock:
            self._state = lease.step_down(self._state, self._clock.monotonic() + for_s)
        self._wake.set()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` from the lease's thread when standing, epoch or holder changed. Register before `start`."""
        self._callbacks.append(callback)

    def stop(self) -> None:
        """Stop leading at once; the row is released soon after. Does not wait for that."""
        with self._lock:
            self._state = lease.stop(self._state)
        self._wake.set()

    def release_and_stop(self) -> None:
        """Stop leading at once, mark the row released, end the thread. Blocks for up to 3 s."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        else:
            self._store.close()

    def run(self) -> None:
        """Do one step after the other until stopped."""
        while self.turn():
            pass
        self._store.close()

    def turn(self) -> bool:
        """Carry out one action and take in what came of it. False at the end."""
        doing = self._state.doing
        if isinstance(doing, lease.Stop):
            return False
        seen = self._carry_out(doing)
        with self._lock:
            self._state = lease.step(self._state, seen, me=self._me, numbers=self._numbers)
        self._tell()
        return True

    def _carry_out(self, action: lease.Action) -> lease.Observation:
        if isinstance(action, lease.Wait):
            self._wait(action)
            return lease.Woke(at=self._clock.monotonic(), wall=self._clock.now())
        sent_at = self._clock.monotonic()
        try:
            seen = self._call(action, sent_at)
        except StoreError as error:
            self._note_failure(error.message)
        except Exception as error:  # noqa: BLE001 - whatever the store does, the lease must go on and lapse in order
            self._note_failure(repr(error), unforeseen=True)
        else:
            self._note_answer()
            return seen
        return lease.CallFailed(sent_at=sent_at, at=self._clock.monotonic(), wall=self._clock.now())

    def _wait(self, action: lease.Wait) -> None:
        seconds = action.until - self._clock.monotonic() + self._random.uniform(0, action.spread_s)
        if seconds > 0 and not self._state.stopping:
            self._pause(seconds)
        self._wake.clear()

    def _call(self, action: lease.Action, sent_at: float) -> lease.Observation:
        if isinstance(action, lease.Read):
            row = self._store.read()
            dead = self._store.proves_old_holder_dead()
            return lease.RowRead(row=row, at=self._clock.monotonic(), wall=self._clock.now(), old_holder_dead=dead)
        ok = self._write(action)
        return lease.Written(ok=ok, sent_at=sent_at, at=self._clock.monotonic(), wall=self._clock.now())

    def _write(self, action: lease.Action) -> bool:
        match action:
            case lease.Take(seen=seen, new=new):
                return self._store.take(seen, new)
            case lease.Renew(row=row):
                return self._store.renew(row)
            case lease.Release(holder=holder, epoch=epoch):
                return self._store.release(holder, epoch)
            case _:
                raise AssertionError(f"not a call: {action}")

    def _note_failure(self, problem: str, *, unforeseen: bool = False) -> None:
        if self._problem is None:
            _LOG.warning("lease.store_away", problem=problem, exc_info=unforeseen)
        self._problem = problem

    def _note_answer(self) -> None:
        if self._problem is not None:
            _LOG.info("lease.store_back")
        self._problem = None

    def _tell(self) -> None:
        status = self.status()
        now = (status.standing, status.epoch, status.holder)
        if now == self._told:
            return
        self._told = now
        _LOG.info("lease.changed", standing=status.standing, epoch=status.epoch, leader=status.leader_name)
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - a listener's mistake must not cost the lease
                _LOG.exception("lease.listener_failed")
