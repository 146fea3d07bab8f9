"""Random processes of the whole system killed at random moments under load: nothing is lost."""

import os
import random

import psutil
import pytest

from llmgw.testing.lab.clients import Clients
from llmgw.testing.lab.history import Outcome
from llmgw.testing.lab.laboratory import HOSTS
from llmgw.testing.records import write_record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("LLMGW_KILLS", "100"))


def parts(lab):
    """Every process that keeps the cluster alive; a fake node stands for a machine and is not one of them."""
    planes, database = lab.planes, lab.database
    by_kind = {
        "server": planes.servers,
        "gateway": planes.gateways,
        "keepalived": planes.keepalived,
        "patroni": database.patroni,
        "etcd": database.etcd,
    }
    return {f"{kind} on {host}": part for kind, some in by_kind.items() for host, part in some.items()}


def revive(some):
    """Start again what ended by itself, as systemd does on real hosts: a keepalived finds its killed one's child."""
    for part in some.values():
        if not part.runs():
            part.start()


def ours(lab):
    """The processes of the laboratory, by what they are."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(lab.folder) in line and process.status() != psutil.STATUS_ZOMBIE:
            found.append(line)
    return sorted(found)


def placed(lab):
    replicas = lab.api().get("/api/v1/replicas")["replicas"]
    return sorted(
        (replica["id"], replica["state"], shard["node"], replica["attempt"])
        for replica in replicas
        for shard in replica["shards"]
    )


def test_nothing_is_lost_by_kills_of_random_processes(lab):
    seed = int(os.environ.get("LLMGW_SEED", str(random.SystemRandom().randrange(10**6))))
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    before, placements = ours(lab), placed(lab)
    all_parts = parts(lab)
    with Clients(lab, f"kills-{seed}") as clients:
        for _ in range(KILLS):
            name = chance.choice(sorted(all_parts))
            part = all_parts[name]
            part.kill()
            lab.pause(chance.uniform(0.0, 2.0))
            part.start()
            lab.pause(chance.uniform(0.0, 2.0))
            revive(all_parts)
        lab.wait_for("everything is well", lambda: revive(all_parts) or lab.whole(), seconds=180)
        faults = clients.faults()
    print(clients.figures())
    write_record(
        "kills",
        {
            "kind": "kills",
            "seed": seed,
            "kills": KILLS,
            "acknowledged": clients.acknowledged,
            "unknown": clients.history.count(Outcome.UNKNOWN),
            "answers": clients.history.answers(),
            "failed": len(clients.history.failures()),
            "faults": len(faults),
        },
    )
    assert faults == []
    # A gateway that was killed itself breaks what it was answering; nothing else may.
    assert not [failure for failure in clients.history.failures() if "HTTP 5" in failure]
    assert placed(lab) == placements, "no node died, so nothing is placed anew, restarted, or placed twice"
    assert ours(lab) == before
    assert lab.leader() in HOSTS
