import asyncio
import contextlib

from llmgw.gateway import peer_folder
from llmgw.gateway.peer_folder import PeerFolder
from llmgw.schema.view import Peer
from llmgw.testing.gateway_room import until


@contextlib.asynccontextmanager
async def looking(folder, name):
    found = []
    running = asyncio.ensure_future(PeerFolder(folder, Peer(name=name, address=f"127.0.0.1:{name}")).run(found.append))
    try:
        yield lambda: [peer.name for peer in found[-1].peers.peers] if found else None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_gateways_with_one_folder_find_each_other_and_miss_who_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_folder, "LOOK_S", 0.01)
    async with looking(tmp_path, "1") as one:
        await until(lambda: one() == [])
        async with looking(tmp_path, "2") as two:
            await until(lambda: one() == ["2"] and two() == ["1"])
        await until(lambda: one() == [])
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_address_is_passed_over_and_one_that_another_took_over_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_folder, "LOOK_S", 0.01)
    (tmp_path / "3").write_text("")
    (tmp_path / "4").write_bytes(b"\xff\xfe")
    async with looking(tmp_path, "1") as one:
        await until(lambda: one() == [])
        (tmp_path / "1").write_text("127.0.0.1:9")
    assert (tmp_path / "1").read_text() == "127.0.0.1:9"
