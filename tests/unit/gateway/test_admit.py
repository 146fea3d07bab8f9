import asyncio

import pytest

from llmgw.core.routing import Prompt
from llmgw.gateway.admit import Admission
from llmgw.gateway.authenticate import Authenticator
from llmgw.gateway.errors import ApiError
from llmgw.gateway.permits import Grant, LocalPermits, Recall, Returned, Want
from llmgw.gateway.routes_view import LiveView
from llmgw.testing.gateway_room import a_replica, a_route, a_view

URL = "http://127.0.0.1:9001"
POOL = f"r1.0@{URL}"


class Gate:
    """An admission with one replica of `slots`, and what it told the master."""

    def __init__(self, *, slots: int | None = 1, queue: int = 2, timeout_s: float = 5.0) -> None:
        self.view = LiveView(place=None, authenticator=Authenticator())
        self.view.take_snapshot(a_view(a_route(a_replica("r1", URL, slots=slots))))
        self.told: list[object] = []
        self.admission = Admission(
            self.view, LocalPermits(), self.told.append, queue_per_model=queue, queue_timeout_s=timeout_s
        )

    def enter(self):
        return self.admission.enter(self.view.route("tiny"), Prompt())

    async def waiting(self, count: int) -> list[asyncio.Task]:
        tasks = [asyncio.ensure_future(self.enter()) for _ in range(count)]
        await asyncio.sleep(0)
        return tasks


async def test_without_known_slots_everybody_is_let_in():
    gate = Gate(slots=None)
    for _ in range(100):
        await gate.enter()
    assert gate.told == []


async def test_a_place_is_given_back_once_whatever_happened():
    gate = Gate()
    gate.admission.granted(Grant(pool=POOL, count=1))
    place = await gate.enter()
    with pytest.raises(ZeroDivisionError), place:
        place.target.in_flight / 0
    with await gate.enter() as place:
        assert place.target.in_flight == 1


async def test_the_queue_is_first_in_first_out_and_the_master_hears_of_it():
    gate = Gate()
    first, second = await gate.waiting(2)
    assert gate.told == [Want(model="tiny", count=1), Want(model="tiny", count=2)]
    gate.admission.granted(Grant(pool=POOL, count=1))
    place = await first
    assert not second.done()
    assert gate.told[-1] == Want(model="tiny", count=1)
    with place:
        pass
    with await second:
        pass
    assert gate.told[-1] == Want(model="tiny", count=0)


async def test_a_full_queue_is_429_at_once():
    gate = Gate(queue=2)
    tasks = await gate.waiting(2)
    with pytest.raises(ApiError) as caught:
        await gate.enter()
    assert (caught.value.status, caught.value.retry_after_s is not None) == (429, True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gate.admission.waiting("tiny") == 0


async def test_waiting_has_an_end():
    gate = Gate(timeout_s=0.01)
    with pytest.raises(ApiError) as caught:
        await gate.enter()
    assert caught.value.status == 429
    assert gate.admission.waiting("tiny") == 0
    assert gate.told[-1] == Want(model="tiny", count=0)


async def test_a_request_cancelled_in_the_moment_it_is_let_in_leaks_nothing():
    gate = Gate()
    (task,) = await gate.waiting(1)
    gate.admission.granted(Grant(pool=POOL, count=1))  # its place is there, the task has not woken up
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with await asyncio.wait_for(gate.enter(), 1) as place:
        assert place.target.in_flight == 1


async def test_a_queue_survives_the_loss_of_its_replica_and_goes_on_with_the_next():
    gate = Gate()
    (task,) = await gate.waiting(1)
    gate.view.take_snapshot(a_view(a_route(unavailable="it restarts")))
    gate.admission.pump_all()
    await asyncio.sleep(0)
    assert not task.done()
    gate.view.take_snapshot(a_view(a_route(a_replica("r9", URL))))
    gate.admission.pump_all()
    assert (await task).target.id == "r9"


async def test_a_queue_for_a_model_that_is_removed_is_told_so():
    gate = Gate()
    (task,) = await gate.waiting(1)
    gate.view.take_snapshot(a_view())
    gate.admission.pump_all()
    with pytest.raises(ApiError) as caught:
        await task
    assert caught.value.status == 404


async def test_recalled_permits_go_back_as_requests_end():
    gate = Gate(slots=2)
    gate.admission.granted(Grant(pool=POOL, count=2))
    with await gate.enter():
        gate.admission.recalled(Recall(pool=POOL, count=2))
        assert gate.told[-1] == Returned(pool=POOL, count=1, owed=1)
    assert gate.told[-1] == Returned(pool=POOL, count=1, owed=0)


async def test_a_grant_that_pays_a_debt_does_not_make_the_master_forget_who_waits():
    gate = Gate(slots=2)
    gate.admission.granted(Grant(pool=POOL, count=1))
    place = await gate.enter()
    gate.admission.recalled(Recall(pool=POOL, count=1))
    (task,) = await gate.waiting(1)
    gate.told.clear()
    gate.admission.granted(Grant(pool=POOL, count=1))
    assert gate.told == [Returned(pool=POOL, count=1, owed=0), Want(model="tiny", count=1)]
    with place:
        pass
    with await task:
        pass
