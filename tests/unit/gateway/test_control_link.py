import asyncio

from structlog.testing import capture_logs

from llmgw.gateway import control_link
from llmgw.gateway.control_line import UnixLine
from llmgw.gateway.control_link import ControlLink
from llmgw.gateway.routes_view import ViewGap
from llmgw.link.frames import pack, read_frame
from llmgw.schema.link import GatewayHello, Ping, Refused, ViewSnapshot
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


class Line:
    """A way to a control plane that does as it is told, in memory."""

    def __init__(self, name: str, path, *, opens=None) -> None:
        self.name, self._path, self._opens = name, path, opens
        self.tried = 0

    async def open(self):
        self.tried += 1
        if self._opens is not None:
            await self._opens()
        return await asyncio.open_unix_connection(str(self._path))


async def _hang() -> None:
    await asyncio.Event().wait()


async def _refuse() -> None:
    raise ConnectionRefusedError("it is refused: it is node n1; only a server is let in here")


class Silent(Server):
    """A control plane that has no view."""

    async def _serve(self, reader, writer) -> None:
        self.streams.append(writer)
        writer.write(pack(Ping()))
        await reader.read()
        writer.transport.abort()


async def test_control_planes_that_hang_refuse_or_have_no_view_keep_it_from_none_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(control_link, "CONNECT_S", 0.05)
    good, silent = tmp_path / "good.sock", tmp_path / "silent.sock"
    lines = [Line("hangs", good, opens=_hang), Line("stranger", good, opens=_refuse), Line("empty", silent)]
    lines.append(Line("good", good))
    got: list[object] = []
    async with Silent(silent), Server(good) as server:
        running = asyncio.ensure_future(ControlLink(lines, HELLO, got.append, view_s=0.05).run())
        await until(lambda: any(isinstance(one, ViewSnapshot) for one in got))
        assert [line.tried for line in lines] == [1, 1, 1, 1]
        await asyncio.sleep(0.1)  # longer than the patience with those that have no view
        assert len(server.streams) == 1

        server.streams[0].transport.abort()
        await until(lambda: len(server.streams) == 2)
        assert lines[0].tried == 1  # what hung is passed over for a while
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_control_plane_that_refuses_says_why(tmp_path):
    class Refusing(Server):
        async def _serve(self, reader, writer) -> None:
            self.streams.append(writer)
            writer.write(pack(Refused(reason="gateway g was removed")))
            await reader.read()
            writer.transport.abort()

    got: list[object] = []
    with capture_logs() as logs:
        async with Refusing(tmp_path / "hub.sock"):
            link = ControlLink([UnixLine(tmp_path / "hub.sock")], HELLO, got.append)
            running = asyncio.ensure_future(link.run())
            await until(lambda: bool(logs))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert not got
    assert logs[0]["reason"] == "it refuses this gateway: gateway g was removed"
