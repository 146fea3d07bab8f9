import asyncio

from llmgw.gateway.control_line import UnixLine
from llmgw.gateway.control_link import ControlLink
from llmgw.gateway.routes_view import ViewGap
from llmgw.link.frames import pack, read_frame
from llmgw.schema.link import GatewayHello, Ping, ViewSnapshot
from llmgw.testing.gateway_room import a_view, until

HELLO = GatewayHello(gateway="g", version="1", pid=1)


class Server:
    """Sends a snapshot to each stream, and counts them."""

    def __init__(self, path) -> None:
        self.path, self.streams = path, []

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))
        return self

    async def __aexit__(self, *_) -> None:
        self._server.close()
        for writer in self.streams:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader, writer) -> None:
        self.streams.append(writer)
        await read_frame(reader)
        writer.write(pack(ViewSnapshot(view=a_view())))
        await reader.read()
        writer.transport.abort()


async def test_it_waits_for_the_control_plane_and_comes_back_after_each_loss(tmp_path):
    got: list[object] = []
    link = ControlLink([UnixLine(tmp_path / "hub.sock")], HELLO, got.append)
    running = asyncio.ensure_future(link.run())
    await asyncio.sleep(0)
    async with Server(tmp_path / "hub.sock") as server:
        await until(lambda: len(got) == 1)
        server.streams[0].write(pack(Ping()))
        await until(lambda: len(got) == 2)
        server.streams[0].transport.abort()
        await until(lambda: len(got) == 3)
        server.streams[1].write(b"\x00\x00\x00\x02{}")  # no message of ours
        await until(lambda: len(got) == 4)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert isinstance(got[3], ViewSnapshot)


async def test_a_gap_is_cured_by_a_fresh_stream(tmp_path):
    taken: list[object] = []

    def take(message: object) -> None:
        taken.append(message)
        if len(taken) == 1:
            raise ViewGap("it does not follow")

    running = asyncio.ensure_future(ControlLink([UnixLine(tmp_path / "hub.sock")], HELLO, take).run())
    async with Server(tmp_path / "hub.sock") as server:
        await until(lambda: len(taken) == 2)
        assert len(server.streams) == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
