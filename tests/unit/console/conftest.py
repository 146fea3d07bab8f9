import httpx2
import pytest

from llmgw.config.server import ServerConfig
from llmgw.console.app import build_console
from llmgw.schema.key import AdminRole
from llmgw.testing.control_room import ControlRoom

ORIGIN = "http://control:8800"
BROWSER = {"accept": "text/html", "origin": ORIGIN}


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room


@pytest.fixture
async def browser(room):
    """A browser that is not logged in: keeps cookies, follows nothing by itself."""
    config = ServerConfig(data_dir="/nowhere", gateway_url="http://llm.example.org:8000/v1")
    console = build_console(room.fleet, room.clock, room.store, config=config, version="1.2.3")
    transport = httpx2.ASGITransport(app=console, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=BROWSER) as client:
        yield client


@pytest.fixture
async def viewer(room, browser):
    """A browser that is logged in as a viewer."""
    answer = await browser.post("/login", data={"token": await room.token(AdminRole.VIEWER)})
    assert answer.status_code == 303
    return browser
