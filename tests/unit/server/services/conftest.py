import pytest

from llmgw.testing.control_room import ControlRoom


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room
