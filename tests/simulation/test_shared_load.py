"""Gateways that go by each other's load, which they hear late: better than not knowing it, and never worse.

The real choice and the real smoothing, without streams: a word takes a quarter of a second. Load is measured as the
busiest replica's requests over the mean of all, averaged over time.
"""

import heapq
import random
from dataclasses import dataclass, field

import pytest

from llmgw.core.prefix import BelievedCache
from llmgw.core.routing import Prompt, choose
from llmgw.gateway import peer_loads
from llmgw.gateway.peer_loads import PeerLoads
from llmgw.gateway.peer_records import PeerLoad

TELL_S = 0.25
WARM_S, END_S = 15.0, 60.0


@dataclass
class Replica:
    """A replica as one gateway sees it."""

    name: str
    seed: int
    in_flight: int = 0
    elsewhere: int = 0
    slots: None = None
    queued: float = 0.0
    rate: None = None
    fill: None = None
    ejected_until: float = 0.0
    cache: BelievedCache = field(default_factory=BelievedCache)

    @property
    def load(self) -> int:
        return self.in_flight + self.elsewhere


@dataclass
class Gateway:
    """One gateway. `reach`: how many of the replicas serve its models."""

    name: str
    replicas: list[Replica]
    reach: int
    loads: PeerLoads = field(default_factory=PeerLoads)
    told: int = 0

    def say(self) -> PeerLoad:
        self.told += 1
        return PeerLoad(sequence=self.told, in_flight={one.name: one.in_flight for one in self.replicas})


def imbalance(*, share, replicas=8, reach=(8, 8, 8, 8), per_second=200.0, seconds=1.0):
    """Run it, and give the mean of busiest over mean."""
    dice = random.Random(7)
    gateways = [
        Gateway(f"g{number}", [Replica(f"r{one}", dice.getrandbits(32)) for one in range(replicas)], reach[number])
        for number in range(len(reach))
    ]
    events, number, seen, on_their_way = [(0.0, 0, "tell", None)], 1, [], []
    heapq.heappush(events, (0.0, 1, "ask", None))
    while events:
        now, _, what, replica = heapq.heappop(events)
        number += 1
        if now > END_S:
            return sum(seen) / len(seen)
        if what == "end":
            replica.in_flight -= 1
        elif what == "ask":
            gateway = dice.choice(gateways)
            known = gateway.replicas[: gateway.reach]
            chosen = choose(known, Prompt(affinity=dice.getrandbits(32)), now=now, usable=lambda _: True)
            chosen.in_flight += 1
            heapq.heappush(events, (now + dice.expovariate(1 / seconds), number, "end", chosen))
            number += 1
            heapq.heappush(events, (now + dice.expovariate(per_second), number, "ask", None))
        else:
            if share:
                hear(gateways, on_their_way, now)
            on_their_way = [one.say() for one in gateways]
            heapq.heappush(events, (now + TELL_S, number, "tell", None))
            if now > WARM_S:
                there = [sum(one.replicas[at].in_flight for one in gateways) for at in range(replicas)]
                seen.append(max(there) * replicas / max(sum(there), 1))
    raise AssertionError("nothing happens any more")


def hear(gateways, words, now):
    for gateway in gateways:
        for other, word in zip(gateways, words, strict=False):
            if other is not gateway:
                gateway.loads.take(other.name, "run", word, at=now)
        elsewhere = gateway.loads.elsewhere(now)
        for replica in gateway.replicas:
            replica.elsewhere = elsewhere.get(replica.name, 0)


ALIKE = {"reach": (8, 8, 8, 8)}
MANY = {"replicas": 32, "reach": (32,) * 12, "per_second": 300.0, "seconds": 2.0}
UNEVEN = {"reach": (4, 8, 8, 8)}


@pytest.mark.parametrize("fleet", [ALIKE, MANY], ids=["alike", "many"])
def test_gateways_that_are_alike_do_not_run_to_the_same_replica(fleet):
    assert imbalance(share=True, **fleet) < imbalance(share=False, **fleet) * 1.1


def test_what_one_gateway_can_only_put_to_some_replicas_the_others_put_elsewhere():
    alone, together = imbalance(share=False, **UNEVEN), imbalance(share=True, **UNEVEN)
    assert alone > 1.25
    assert together < 1.12


def test_without_smoothing_they_would(monkeypatch):
    monkeypatch.setattr(peer_loads, "SMOOTH_S", 1e-9)
    assert imbalance(share=True, **ALIKE) > imbalance(share=False, **ALIKE) * 1.25
