"""A real control plane on SQLite for tests that only look at its answers: one for each module."""

import asyncio
from collections.abc import Iterator

import pytest

from llmgw.testing.server_process import ServerProcess


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with asyncio.Runner() as runner:
        server = ServerProcess(tmp_path_factory.mktemp("control"))
        runner.run(server.__aenter__())
        try:
            yield server
        finally:
            runner.run(server.__aexit__())
    assert "Traceback" not in server.log()
