from llmgw.schema.floating import FloatingState, HostWord
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.schema.member import Member
from llmgw.server.floating_watch import ORPHAN_LOOKS, FloatingWatch
from llmgw.testing.factories import NOW

ADDRESS = "192.0.2.100"


class Others:
    """Two control planes beside this one; `answered` answers through the address."""

    def __init__(self):
        self.words = {"http://cp2": HostWord(name="cp2", has_address=True, keepalived=True)}
        self.answered = "cp2"

    async def host_word(self, api):
        return self.words.get(api)

    async def leader_at(self, api):
        assert api == f"http://{ADDRESS}:8800"
        return self.answered


def member(name):
    return Member(name=name, holder=name, api=f"http://{name}", agents="", version="1", started_at=NOW)


class Here:
    """This host; counts how often the address was taken off it."""

    def __init__(self, *, has=False, keepalived=True):
        self.has, self.keepalived, self.removed = has, keepalived, 0

    def word(self):
        return HostWord(name="cp1", has_address=self.has, keepalived=self.keepalived)

    def remove(self):
        self.removed += 1


def watch(others, here, *, leads=False):
    status = LeaseStatus(standing=Standing.STANDING_BY, epoch=1, leader_name="cp2")
    return FloatingWatch(
        address=ADDRESS,
        through=f"http://{ADDRESS}:8800",
        name="cp1",
        others=lambda: [member("cp1"), member("cp2")],
        lease=lambda: status,
        leads=lambda: leads,
        peers=others,
        host=here,
    )


async def test_the_words_of_all_hosts_make_one_status():
    watched = watch(Others(), Here())
    assert watched.status is None
    await watched.look()
    assert (watched.status.state, watched.status.hosts, watched.status.up) == (FloatingState.ON_LEADER, ("cp2",), True)


async def test_a_control_plane_that_is_silent_leaves_the_place_unknown():
    others = Others()
    others.words, others.answered = {}, None
    watched = watch(others, Here())
    await watched.look()
    assert watched.status.problem == f"{ADDRESS} is on none of the hosts that answer; cp2 did not"


async def test_an_orphaned_address_is_removed_after_some_looks_and_not_at_the_first():
    here = Here(has=True, keepalived=False)
    watched = watch(Others(), here)
    for _ in range(ORPHAN_LOOKS - 1):
        await watched.look()
    assert here.removed == 0
    assert watched.status.state is FloatingState.ON_TWO_HOSTS
    await watched.look()
    assert here.removed == 1


async def test_a_leader_keeps_its_address_whatever_happened_to_keepalived():
    here = Here(has=True, keepalived=False)
    watched = watch(Others(), here, leads=True)
    for _ in range(2 * ORPHAN_LOOKS):
        await watched.look()
    assert here.removed == 0
