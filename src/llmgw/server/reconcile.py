"""The reconciler: recomputes what should be from what is, woken by changes and at least once a second."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from llmgw.core.demand import kept
from llmgw.core.guard.judge_evidence import needed_judges
from llmgw.core.observing import OBSERVING_SETTING
from llmgw.ports import Clock, FleetRows, Write
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.errors import Fenced, NoLeader, StoreUnavailable
from llmgw.schema.lease import Fence
from llmgw.server.fleet import Fleet
from llmgw.server.live import Live, LiveNodes
from llmgw.server.look_on import is_lost, look_on
from llmgw.server.observe import Observer
from llmgw.server.recall import Recall
from llmgw.server.scaling import Scaling
from llmgw.server.turn import Heard, Rules, Turn, decide
from llmgw.telemetry import log

TURN_S = 1.0
"""Longest pause between two turns: time itself changes things (back-off, silence)."""
AT_ONCE = 500
"""Nodes and replicas for which a turn takes less than 20 ms, also the first; more are decided in a thread."""
FAILED_S = 0.25
"""Pause after a turn that failed, so that a store that is away is not hammered."""

_log = log.get(__name__)


class Orders(Protocol):
    """The agents' streams as the reconciler sees them."""

    def sent(self, node: str) -> DesiredState | None:
        """Give the order sent last on the node's stream; `None` when none was sent on it yet."""

    def send(self, node: str, stream: int, state: DesiredState) -> None:
        """Send an order on one stream of a node."""


class FenceSource(Protocol):
    """Tells what orders must carry."""

    def fence(self) -> Fence | None:
        """Give epoch and holder; `None` unless this process leads now."""


def _anybody(_node: str) -> bool:
    return True


class Reconciler:
    """Runs turns while this process leads. Makes no decision of its own; see `turn`.

    `hearing` is the clock that stamps what agents say; `answering` names replicas that answered requests lately,
    `probed` those whose engine answered a gateway that asked whether it is there.
    """

    def __init__(
        self,
        *,
        fleet: Fleet,
        live: LiveNodes,
        orders: Orders,
        lease: FenceSource,
        clock: Clock,
        observer: Observer,
        rules: Rules,
        hearing: Clock,
        answering: Callable[[], frozenset[str]],
        probed: Callable[[], frozenset[str]] = frozenset,
        admits: Callable[[str], bool] = _anybody,
    ) -> None:
        self._fleet = fleet
        self._live = live
        self._orders = orders
        self._lease = lease
        self._clock = clock
        self._observer = observer
        self._rules = rules
        self._hearing = hearing
        self._answering = answering
        self._probed = probed
        self._admits = admits
        self._scaling = Scaling()
        self._recall = Recall()
        self._violations: tuple[str, ...] = ()
        self._failed: str | None = None
        self._looked_on = False

    async def run(self) -> None:
        """Turn until cancelled."""
        woken = asyncio.Event()
        ends = (self._fleet.wakes.subscribe(woken.set), self._live.changes.subscribe(woken.set))
        try:
            while True:
                if not await self._survive():
                    await asyncio.sleep(FAILED_S)
                await _first(woken, TURN_S)
                woken.clear()
        finally:
            self._fleet.wanted = {}
            for end in ends:
                end()

    async def turn(self) -> Turn:
        """Run one turn: write what was decided, then send the orders that follow from it.

        Raises what `Fleet.change` raises; then nothing was ordered.
        """
        self._observe()
        decided: list[tuple[Turn, tuple[Live, ...]]] = []

        async def choose(rows: FleetRows) -> tuple[Write, ...]:
            if (turn := self._look_on(rows)) is not None:
                decided.append((turn, ()))
                return turn.writes
            wanted = self._scaling.look(rows, self._fleet.loads(), now=self._clock.monotonic())
            # Nobody may ask for days, and the next request must still be judged.
            self._fleet.wanted = kept(wanted, needed_judges(self._fleet.policies, rows.models))
            heard = self._heard()
            turn = await self._decide(rows, heard)
            decided.append((turn, heard.live))
            return turn.writes

        await self._fleet.change_slowly(choose)
        turn, live = decided[-1]
        self._report(turn)
        self._enforce(turn, live)
        return turn

    def _look_on(self, rows: FleetRows) -> Turn | None:
        """Give the turn of a leader that observes; `None` when it is to decide as ever."""
        heard, settings = self._heard(), self._fleet.settings
        lost = OBSERVING_SETTING not in settings and is_lost(rows, heard.live)
        if lost or self._fleet.observing is not None:
            self._looked_on = True
            return look_on(rows, heard, self._rules, lost=lost)
        if self._looked_on:
            # Silence counts anew once an operator resumed: until then nobody needed to be there.
            silence = replace(self._rules.silence, leading_since=self._hearing.monotonic())
            self._rules = replace(self._rules, silence=silence)
        self._looked_on = False
        return None

    async def _decide(self, rows: FleetRows, heard: Heard) -> Turn:
        if len(rows.nodes) + len(rows.replicas) <= AT_ONCE:
            return decide(rows, heard, self._rules, self._observer, self._recall)
        # Pure, so it may run in a thread: the loop goes on with agents, gateways and operators meanwhile.
        return await asyncio.to_thread(decide, rows, heard, self._rules, self._observer, self._recall)

    async def _survive(self) -> bool:
        try:
            await self.turn()
        except (Fenced, NoLeader, StoreUnavailable) as error:
            # Once: a store that is away for a minute is one event, not two hundred.
            if error.message != self._failed:
                _log.warning("reconcile.turn_failed", error=error.message)
            self._failed = error.message
            return False
        except Exception:  # noqa: BLE001 - a level-triggered loop must outlive a defect in one turn; the next may pass
            _log.exception("reconcile.turn_broke")
            return False
        self._failed = None
        return True

    def _heard(self) -> Heard:
        return Heard(
            # One that was removed a moment ago still has its stream: it must not be taken on again.
            live=tuple(one for one in self._live.all() if self._admits(one.node)),
            now=self._clock.now(),
            hearing=self._hearing.monotonic(),
            wanted=dict(self._fleet.wanted),
            answering=self._answering(),
            probed=self._probed(),
        )

    def _observe(self) -> None:
        """Tell agents that are new who leads now, without asking anything of them: their reports come first."""
        fence = self._lease.fence()
        for live in self._live.all():
            if fence is None or not live.connected or self._orders.sent(live.node) is not None:
                continue
            # It carries no set: an agent that must change nothing needs none.
            state = DesiredState(epoch=fence.epoch, holder=fence.holder, generation=live.generation, mode=Mode.OBSERVE)
            self._orders.send(live.node, live.stream, state)

    def _enforce(self, turn: Turn, live: tuple[Live, ...]) -> None:
        """Order what was decided, of the agents whose reports were part of the decision."""
        sets = {found.node: found for found in turn.sets}
        for one in live:
            found = sets.get(one.node)
            # Asked anew for each: orders stop in the middle of a plan when the lease does.
            fence = self._lease.fence()
            if fence is None:
                return
            if found is None or not one.connected:
                continue
            state = found.order(fence, Mode.ENFORCE)
            if _mark(self._orders.sent(one.node)) != _mark(state):
                self._orders.send(one.node, one.stream, state)

    def _report(self, turn: Turn) -> None:
        if turn.violations and turn.violations != self._violations:
            _log.error("reconcile.plan_refused", violations=turn.violations)
        self._violations = turn.violations


def _mark(state: DesiredState | None) -> tuple[int, str, int, Mode] | None:
    return None if state is None else (state.epoch, state.holder, state.generation, state.mode)


async def _first(woken: asyncio.Event, longest_s: float) -> None:
    try:
        async with asyncio.timeout(longest_s):
            await woken.wait()
    except TimeoutError:
        return
