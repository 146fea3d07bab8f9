import asyncio

from llmgw.relay.sweep import Sweep


class Member:
    def __init__(self):
        self.checked = asyncio.Event()

    def check(self, now):
        self.checked.set()


async def test_members_are_checked_until_they_are_discarded():
    sweep, staying, leaving = Sweep(period_s=0.001), Member(), Member()
    sweep.add(staying)
    sweep.add(leaving)
    sweep.discard(leaving)

    await asyncio.wait_for(staying.checked.wait(), 5)

    assert not leaving.checked.is_set()
    sweep.discard(staying)


async def test_without_members_no_timer_runs():
    sweep, member = Sweep(), Member()
    sweep.add(member)
    assert sweep._timer is not None

    sweep.discard(member)

    assert sweep._timer is None
