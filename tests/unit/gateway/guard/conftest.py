"""A gateway worker with a chat model and a judge on fake engines, and policies."""

from collections.abc import AsyncIterator

import pytest

from llmgw.testing.guard_room import GuardRoom, guard_room


@pytest.fixture
async def court(tmp_path) -> AsyncIterator[GuardRoom]:
    async with guard_room(tmp_path) as room:
        yield room
