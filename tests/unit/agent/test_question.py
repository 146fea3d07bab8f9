import asyncio
import threading

import pytest

from llmgw.agent.question import Question

SHORT_S = 0.05
LONG_S = 20.0


class Server:
    """Answers once it is released, and counts how often it was asked."""

    def __init__(self):
        self.release = threading.Event()
        self.asked = 0

    def ask(self):
        self.asked += 1
        self.release.wait(LONG_S)
        return self.asked


def question(server, *, within_s=SHORT_S, came_late=lambda: None):
    return Question(server.ask, name="q", within_s=within_s, came_late=came_late)


async def test_an_answer_is_given():
    server = Server()
    server.release.set()
    asking = question(server, within_s=LONG_S)
    assert [await asking.answer(), await asking.answer()] == [1, 2]


async def test_what_the_question_raises_is_raised():
    def refuse():
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        await Question(refuse, name="q", within_s=LONG_S, came_late=lambda: None).answer()


async def test_what_hangs_is_asked_once_and_waited_for_once():
    server = Server()
    asking = question(server)
    threads = threading.active_count()
    began = asyncio.get_running_loop().time()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            await asking.answer()
    assert asyncio.get_running_loop().time() - began < 100 * SHORT_S
    assert server.asked == 1
    assert threading.active_count() <= threads + 1
    server.release.set()


async def test_an_answer_that_comes_late_is_announced_and_given_to_the_next_who_asks():
    server, late = Server(), asyncio.Event()
    asking = question(server, came_late=late.set)
    with pytest.raises(TimeoutError):
        await asking.answer()
    server.release.set()
    async with asyncio.timeout(LONG_S):
        await late.wait()
    assert await asking.answer() == 1
    assert server.asked == 1
    await question(server, within_s=LONG_S).answer()
    assert server.asked == 2


async def test_an_answer_in_time_is_not_announced():
    server, late = Server(), asyncio.Event()
    server.release.set()
    await question(server, within_s=LONG_S, came_late=late.set).answer()
    await asyncio.sleep(0)
    assert not late.is_set()
