"""Nodes in trouble as operators read of it. Each scenario is a script: who falls silent and when; the text shows what
is told and how every node stands."""

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from llmgw.core.drain import preview
from llmgw.core.node_lifecycle import flaps, is_settling, shown_state
from llmgw.core.planner import plan
from llmgw.ctl.node_drain import text as drain_text
from llmgw.ports import AppendEvent, FleetRows
from llmgw.schema.admin.drain import Drain
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow
from llmgw.schema.model import Profile
from llmgw.schema.node import Intent, Node, Replacement
from llmgw.schema.plan import Claim
from llmgw.schema.replica import ReplicaState
from llmgw.server.fold import fold
from llmgw.server.live import Live
from llmgw.server.registration import Silence, registrations
from llmgw.testing.factories import (
    GIB,
    NOW,
    make_allocation,
    make_devices,
    make_model,
    make_node,
    make_replica,
    make_snapshot,
    make_want,
)

Golden = Callable[[str, str], None]


class Script:
    """Plays time on a fleet and keeps the text."""

    def __init__(self, title: str, nodes: list[Node]) -> None:
        self.rows = FleetRows(nodes=tuple(replace(node, reachability_since=NOW) for node in nodes))
        self.text = f"# {title}\n"
        self.silent: set[str] = set()
        self.answering: frozenset[str] = frozenset()
        self._second = 0
        self._led_since = -3600.0
        self._heard = dict.fromkeys((node.id for node in nodes), 0.0)

    def new_leader(self) -> None:
        """Let another control plane lead from now on: it has heard nobody yet."""
        self._led_since = float(self._second)
        self._heard = {}

    def until(self, second: int, what: str) -> None:
        """Let time pass to `second`, turn by turn; note what is told meanwhile, then how the nodes stand."""
        self.text += f"\n> {what}\n"
        while self._second < second:
            self._second += 1
            self._turn()
        self.text += f"{self._clock()} {'; '.join(self._groups())}\n"

    def change(self, node: str, **fields: object) -> None:
        """Change a node's row, as an operator does."""
        nodes = tuple(replace(one, **fields) if one.id == node else one for one in self.rows.nodes)
        self.rows = replace(self.rows, nodes=nodes)

    def _turn(self) -> None:
        for node in self.rows.nodes:
            if node.id not in self.silent:
                self._heard[node.id] = float(self._second)
        live = tuple(self._live(node) for node in self.rows.nodes if node.id in self._heard)
        silence = Silence(unreachable_after_s=15.0, lost_after_s=300.0, leading_since=self._led_since)
        writes = registrations(
            self.rows.nodes,
            live,
            silence=silence,
            now=NOW + timedelta(seconds=self._second),
            hearing=float(self._second),
            answering=self.answering,
        )
        self.rows = fold(self.rows, writes)
        told = [write.event.message for write in writes if isinstance(write, AppendEvent)]
        for message in told[:2]:
            self.text += f"{self._clock()}   {message}\n"
        if len(told) > 2:
            self.text += "".join(f"{self._clock()}   {m}\n" for m in told[2:] if "agent of node" not in m)
            self.text += f"{self._clock()}   ({len(told)} events in all)\n"

    def _live(self, node: Node) -> Live:
        return Live(
            node=node.id,
            stream=1,
            facts=node.facts,
            reports=(),
            generation=0,
            connected=node.id not in self.silent,
            heard_at=self._heard[node.id],
        )

    def _clock(self) -> str:
        return f"{self._second // 60:3}:{self._second % 60:02}"

    def _groups(self) -> list[str]:
        now = NOW + timedelta(seconds=self._second)
        groups: dict[str, list[str]] = {}
        for node in self.rows.nodes:
            words = [str(shown_state(node))]
            words += [str(node.replacement)] if node.replacement is not Replacement.ALLOWED else []
            words += ["settling"] if is_settling(node, now) else []
            words += [f"{flaps(node, now)} silences"] if flaps(node, now) > 1 else []
            groups.setdefault(", ".join(words), []).append(node.id)
        return [f"{_names(names)}: {words}" for words, names in sorted(groups.items())]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} nodes"


def fleet(count: int, *, racks: int = 1) -> list[Node]:
    return [make_node(f"n{number:03}", labels={"rack": f"r{number % racks}"}) for number in range(1, count + 1)]


def test_one_node_falls_silent_is_lost_and_comes_back(golden: Golden) -> None:
    script = Script("one node", fleet(4))
    script.until(5, "all is well")
    script.silent = {"n001"}
    script.until(25, "the agent of n001 falls silent")
    script.until(304, "just before its time")
    script.until(310, "its time is over")
    script.silent = set()
    script.until(312, "it is back, and takes nothing new for a while")
    script.until(345, "half a minute later")
    golden("nodes/one-lost.txt", script.text)


def test_a_crowd_falls_silent_and_comes_back(golden: Golden) -> None:
    script = Script("a crowd in a fleet of twelve in three racks", fleet(12, racks=3))
    script.silent = {"n001", "n004", "n007"}
    script.until(20, "three of the four nodes of a rack fall silent")
    script.silent |= {"n002"}
    script.until(900, "one more falls silent; a quarter of an hour passes")
    script.silent = {"n007"}
    script.until(905, "all but one are back")
    script.until(990, "who is left counts on its own, a minute later")
    golden("nodes/crowd.txt", script.text)


def test_an_operator_has_a_crowd_replaced(golden: Golden) -> None:
    script = Script("a crowd that will not come back", fleet(6))
    script.silent = {"n001", "n002", "n003"}
    script.until(600, "half of the fleet falls silent, for ten minutes")
    for name in sorted(script.silent):
        script.change(name, replacement=Replacement.RELEASED)
    script.until(602, "an operator says that they may be replaced")
    script.until(625, "they are, one in ten seconds")
    golden("nodes/released.txt", script.text)


def test_a_node_serves_but_does_not_report(golden: Golden) -> None:
    script = Script("a frozen agent", fleet(4))
    script.silent, script.answering = {"n001"}, frozenset({"n001"})
    script.until(400, "the agent of n001 is frozen, its engines answer")
    script.answering = frozenset()
    script.until(402, "they do not any more")
    golden("nodes/serves-unreported.txt", script.text)


def test_a_new_leader_loses_nobody_in_its_first_minute(golden: Golden) -> None:
    script = Script("a change of leader", fleet(4))
    script.silent = {"n001"}
    script.until(290, "n001 falls silent, almost long enough")
    script.new_leader()
    script.until(349, "another control plane leads: n001's silence begins anew")
    script.until(600, "it is lost five minutes later")
    golden("nodes/new-leader.txt", script.text)


def test_a_node_flaps(golden: Golden) -> None:
    script = Script("a node that comes and goes", fleet(4))
    for number in range(1, 4):
        script.silent = {"n001"}
        script.until(number * 60 - 30, f"n001 falls silent for the {['first', 'second', 'third'][number - 1]} time")
        script.silent = set()
        script.until(number * 60, "it is back")
    script.until(260, "the third time it takes nothing new for two minutes")
    golden("nodes/flapping.txt", script.text)


def test_an_intent_outlives_all_of_it(golden: Golden) -> None:
    script = Script("a cordon", fleet(4))
    script.change("n001", intent=Intent.CORDONED, intent_reason="bad fan")
    script.until(5, "n001 is cordoned")
    script.silent = {"n001"}
    script.until(400, "it falls silent and is lost")
    script.new_leader()
    script.silent = set()
    script.until(402, "another control plane leads, and it is back")
    golden("nodes/cordon.txt", script.text)


def test_a_dry_run_of_a_drain(golden: Golden) -> None:
    def gpu(name: str, count: int) -> Node:
        return make_node(name, devices=make_devices(count), memory_bytes=512 * GIB)

    def want(name: str, devices: int):
        profile = Profile(devices_per_node=devices, device_class="h100-80gb")
        return make_want(make_model(name, profile=profile), claim=Claim(devices=devices, device_class="h100-80gb"))

    def replica(name: str, model: str, indexes: range, state: ReplicaState = ReplicaState.READY):
        held = make_allocation("n1", devices=[f"GPU-h100-80gb-{index}" for index in indexes])
        return make_replica(name, model=model, state=state, allocations=[held])

    replicas = [
        replica("rsmall", "small", range(2)),
        replica("rlarge", "large", range(2, 6)),
        replica("rnew", "new", range(6, 8), ReplicaState.STARTING),
    ]
    models = [want("small", 2), want("large", 4), want("new", 2)]
    snapshot = make_snapshot([gpu("n1", 8), gpu("n2", 3)], models, replicas)
    row = NodeRow(
        id="n1",
        state="ready",
        intent="none",
        reachability="connected",
        registered_at=NOW,
        connected=True,
        held=HeldRow(cores=0.0, memory_bytes=0),
        free=FreeRow(),
        facts=snapshot.nodes[0].node.facts,
    )
    found = Drain(node=row, dry_run=True, preview=preview(snapshot, "n1", plan))
    golden("nodes/drain-dry-run.txt", f"# drain n1: eight devices held, three free on n2\n\n{drain_text(found)}\n")
