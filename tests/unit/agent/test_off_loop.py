import asyncio
import threading

import pytest

from llmgw.agent import off_loop


async def test_a_call_runs_in_a_thread_that_nobody_waits_for_at_exit():
    assert await off_loop.call(lambda: threading.current_thread().daemon, name="t") is True


async def test_an_error_comes_out_of_the_call():
    def fail():
        raise FileNotFoundError(2, "gone")

    with pytest.raises(FileNotFoundError):
        await off_loop.call(fail, name="t")


async def test_a_call_that_blocks_can_be_given_up():
    release = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await off_loop.call(release.wait, name="t")
    release.set()
