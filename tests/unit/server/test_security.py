"""What a control plane shows to people, and that what the operator renewed is taken into use."""

import asyncio
import ssl

import pytest
from cryptography import x509

from llmgw.config.server import ServerConfig
from llmgw.config.tls import Tls
from llmgw.link import renewed
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Part
from llmgw.server.security import Security
from llmgw.testing.control_room import ControlRoom
from llmgw.testing.identities import Cluster


class Elsewhere:
    def leader_address(self):
        return None


async def opened(folder, certificate):
    room = ControlRoom()
    await room.open()
    config = ServerConfig(
        data_dir=str(folder),
        name="cp1",
        tls=Tls.ON,
        api_certificate_file=str(certificate),
        api_key_file=str(certificate),
    )
    security = Security(config, fleet=room.fleet, clock=room.clock, directory=Elsewhere())
    await security.open(room.store)
    return security


async def shown(port):
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=5)


async def test_a_certificate_that_the_operator_renewed_is_shown_without_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(renewed.follow_renewals, "__kwdefaults__", {"look_s": 0.02})
    theirs = Cluster()
    own = theirs.join(tmp_path / "people", Part.GATEWAY, "x")
    security = await opened(tmp_path / "cp1", own.file)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=security.api())
    port = server.sockets[0].getsockname()[1]
    running = asyncio.ensure_future(security.run())
    try:
        before = await shown(port)
        theirs.join(tmp_path / "people", Part.GATEWAY, "x")
        after = x509.load_pem_x509_certificate(own.file.read_bytes()).serial_number
        async with asyncio.timeout(20):
            while (now := await shown(port)) == before:  # noqa: ASYNC110 - what is waited for is shown, not told
                await asyncio.sleep(0.02)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
    assert x509.load_pem_x509_certificate(now.encode()).serial_number == after


async def test_a_certificate_that_is_none_is_told_before_anything_listens(tmp_path):
    (tmp_path / "file.pem").write_text("nothing")
    with pytest.raises(InvalidInput) as caught:
        await opened(tmp_path / "cp1", tmp_path / "file.pem")
    assert caught.value.field == "api_certificate_file"
