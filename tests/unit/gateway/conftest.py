"""Fake engines and gateway workers that a test may have several of."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.schema.view import KeysSection, Route
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_room import KEYS, Room, a_view


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine(model="tiny") as one:
        yield one


@pytest.fixture
async def engines() -> AsyncIterator[Callable[[int], Awaitable[list[FakeEngine]]]]:
    async with AsyncExitStack() as stack:

        async def make(count: int) -> list[FakeEngine]:
            return [await stack.enter_async_context(FakeEngine(model="tiny")) for _ in range(count)]

        yield make


@pytest.fixture
async def room(tmp_path) -> AsyncIterator[Callable[..., Awaitable[Room]]]:
    async with AsyncExitStack() as stack:

        async def make(*routes: Route, keys: KeysSection | None = KEYS, **settings) -> Room:
            config = GatewayConfig(
                data_dir=str(tmp_path), control_socket=str(tmp_path / "hub.sock"), log_level="warning", **settings
            )
            made = Room(a_view(*routes, keys=keys), config)
            await made.open()
            stack.push_async_callback(made.close)
            return made

        yield make
