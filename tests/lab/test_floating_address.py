"""The floating address with real keepalived: where it is, and what `ctl status` says when it is not there."""

import pytest

from llmgw.testing.lab.control_planes import FLOATING
from llmgw.testing.lab.floating_gap import How, gap
from llmgw.testing.lab.laboratory import HOSTS
from llmgw.testing.lab.network import has_address

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def holders(lab):
    return [host for host in HOSTS if has_address(lab.network, host, FLOATING.address)]


def test_it_is_on_the_leader_alone_and_answers_there(lab):
    leader = lab.leader()
    assert holders(lab) == [leader]
    assert f"address        {FLOATING.address} on the leader" in lab.status()


def test_a_keepalived_that_is_stopped_on_a_live_leader_leaves_it_nowhere_and_status_says_so(lab):
    leader = lab.leader()
    lab.planes.keepalived[leader].end()
    lab.wait_for(
        "the words", lambda: f"{FLOATING.address} is on no host: look at keepalived on {leader}" in lab.status(leader)
    )
    assert lab.leader() == leader
    lab.planes.keepalived[leader].start()


def test_one_killed_with_its_children_and_a_takeover_make_two_and_clean_up_cures_it(lab):
    leader = lab.leader()
    lab.planes.keepalived[leader].kill_all()
    lab.planes.servers[leader].kill()
    other = next(host for host in HOSTS if host != leader)
    lab.wait_for("a second holder", lambda: len(holders(lab)) > 1)
    lab.planes.servers[leader].start()
    lab.wait_for("the words", lambda: "is on two hosts" in lab.status(other))
    # The restarted control plane does not lead, sees no keepalived, and takes the address off its own host.
    lab.wait_for("one holder", lambda: len(holders(lab)) == 1)
    assert holders(lab) == [lab.leader()]
    lab.planes.keepalived[leader].start()


@pytest.mark.parametrize("how", How)
def test_who_reconnects_through_it_loses_nothing_but_the_gap_while_the_leader_changes(lab, how):
    seen = gap(lab, how)
    print(f"{how}: {seen.gap_s:.1f} s without an answer through the floating address; {seen}")
    assert seen.interruptions <= 1
    assert seen.gap_s < 60.0, "far more than a takeover takes: a busy machine"
