import httpx2
import pytest

from llmgw.config.server import ServerConfig
from llmgw.schema.key import AdminRole
from llmgw.server.http.app import build_app
from llmgw.testing.control_room import ControlRoom


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room


@pytest.fixture
def app(room):
    config = ServerConfig(data_dir="/nowhere")
    return build_app(room.fleet, room.clock, room.store, config=config, version="1.2.3")


@pytest.fixture
async def as_role(room, app):
    """Give a client with a token of the given role; of none, one without."""
    clients = []

    async def open_client(role: AdminRole | None) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {await room.token(role)}"} if role else {}
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        clients.append(httpx2.AsyncClient(transport=transport, base_url="http://control", headers=headers))
        return clients[-1]

    yield open_client
    for client in clients:
        await client.aclose()


@pytest.fixture
async def admin(as_role) -> httpx2.AsyncClient:
    return await as_role(AdminRole.ADMIN)
