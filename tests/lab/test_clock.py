"""A wall clock that jumps by an hour, there and back: it is told in events, and decides nothing."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from llmgw.link.api import Unreachable
from llmgw.schema.errors import LlmgwError
from llmgw.testing.counting_model import write_counting_model
from llmgw.testing.lab.clients import Clients
from llmgw.testing.lab.laboratory import HOSTS
from llmgw.testing.lab.real_agent import RealAgent
from llmgw.testing.lab.wrong_clock import WrongClock, library

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HOUR_S = 3600
OBSERVED_S = 25.0
"""Longer than any silence that means something to the lease (6 s) or to a stream (15 s)."""


@pytest.fixture
def clock(lab):
    found = library()
    if found is None:
        pytest.skip("libfaketime is not installed: apt-get install faketime")
    return WrongClock(lab.folder / "clock", found)


@pytest.fixture
def leader(lab, clock):
    """The leader, which lives by the wrong clock."""
    host = next(host for host in HOSTS if host != lab.leader())
    lab.planes.servers[host].end()
    lab.planes.servers[host].start(more=clock.env)
    lab.settle()
    lab.lead(host)
    lab.settle()
    yield host
    lab.planes.servers[host].end()
    lab.planes.servers[host].start()


@pytest.fixture
def agent(lab, clock, leader):
    """A real agent that lives by it, with a real engine."""
    agent = RealAgent(
        lab.network,
        lab.folder / "clocked",
        name="clocked",
        servers=lab.planes.agent_addresses(),
        token_file=lab.planes.token_file,
    )
    file = agent.weights / "counting.gguf"
    write_counting_model(file)
    agent.start(more=clock.env)
    try:
        lab.wait_for("the node", lambda: ready(lab) == 5)
        model = {"name": "real", "source": str(file), "min": 1, "profile": {"engine": "llamacpp"}}
        lab.api().post("/api/v1/models", model)
        lab.wait_for("its engine", lambda: any(one["state"] == "ready" for one in replicas(lab, "real")))
        yield agent
        lab.api().delete("/api/v1/models/real")
        lab.wait_for("its end", lambda: not replicas(lab, "real"))
    finally:
        agent.end()
    lab.wait_for("its silence", lambda: ready(lab) == 4)
    lab.api().delete("/api/v1/nodes/clocked")


def ready(lab):
    return lab.summary().get("nodes", {}).get("ready")


def replicas(lab, model=None):
    found = lab.api().get("/api/v1/replicas")["replicas"]
    return [one for one in found if model in {None, one["model"]}]


def standing(lab):
    """What must not change; `None` when nobody answered in time."""
    try:
        found, running = lab.api().get("/api/v1/summary"), replicas(lab)
    except (LlmgwError, Unreachable):
        return None
    runs = sorted((one["id"], one["state"], one["attempt"], one["restart_count"]) for one in running)
    return found.get("leader"), found.get("epoch"), found["nodes"], runs


def is_ahead(lab, ahead):
    """True when the newest event was told by a clock so far ahead; False also while the store does not answer."""
    try:
        newest = datetime.fromisoformat(lab.events()[0]["at"])
    except (LlmgwError, Unreachable):
        return False
    return abs(newest - datetime.now(UTC) - ahead) < timedelta(minutes=10)


def test_an_hour_there_and_back_moves_nothing_but_the_times_of_events(lab, clock, leader, agent):
    lab.wait_for("an answer", lambda: standing(lab) is not None)
    before = standing(lab)
    connects = agent.log.count('"link.connected"')
    assert before[0] == leader
    with Clients(lab, "clock") as clients:
        for hours in (1, -1, 0):
            clock.jump(hours * HOUR_S)
            lab.pause(OBSERVED_S)
            lab.wait_for("nothing moved", lambda: standing(lab) == before, seconds=20)
            ahead = partial(is_ahead, lab, timedelta(hours=hours))
            lab.wait_for("an event by this clock", ahead, seconds=20)
        assert clients.faults() == []
        assert clients.history.failures() == ()
        print(clients.figures())
    assert agent.log.count('"link.connected"') == connects, "its stream never broke"
    kinds = {event["kind"] for event in lab.events()[:100]}
    assert kinds.isdisjoint({"node.unreachable", "node.lost", "replica.restarted", "leader.hands_over"})
