"""Certificates of a node and a gateway that are five days old are renewed by the running processes themselves."""

import asyncio
import contextlib
import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from llmgw.link.certificate_request import new_request
from llmgw.link.identity import TlsIdentity, write_identity
from llmgw.schema.identity import Identity, Part
from llmgw.server.authority import open_authority
from llmgw.server.trust import CERTIFICATE_SETTING, KEY_SETTING
from llmgw.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_S = 150.0
"""They look once a minute."""
NODE, GATEWAY = Identity(part=Part.NODE, name="n1"), Identity(part=Part.GATEWAY, name="g1")


@contextlib.asynccontextmanager
async def running(folder, process):
    with (folder / f"{process}.log").open("ab") as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", process, "--config", str(folder / f"{process}.toml"), stdout=log, stderr=log
        )
    try:
        yield
    finally:
        child.terminate()
        await child.wait()


def age(server, folders):
    """Have both machines joined five days ago, with certificates of then."""
    then = datetime.now(UTC) - timedelta(days=5)
    with contextlib.closing(sqlite3.connect(server.data / "llmgw.db")) as store, store:
        settings = dict(store.execute("SELECT id, value FROM settings"))
        for row_id, body in store.execute("SELECT id, body FROM enrolments").fetchall():
            aged = json.dumps(json.loads(body) | {"joined_at": then.isoformat()})
            store.execute("UPDATE enrolments SET body = ? WHERE id = ?", (aged, row_id))
    secret = (server.data / "identity" / "authority-secret").read_text().strip()
    authority = open_authority(settings[CERTIFICATE_SETTING], settings[KEY_SETTING], secret)
    for who, folder in folders.items():
        key, request = new_request(who)
        certificate = authority.certify(request, who, hosts=(), now=then)
        write_identity(folder, key=key, certificate=certificate, authority=authority.certificate)


async def test_certificates_are_renewed_while_everything_runs(tmp_path):
    async with ServerProcess(tmp_path / "server", settings={"tls": "on"}) as server:
        settings = {
            "agent": {
                "servers": [server.agent_address],
                "node_id": "n1",
                "door_listen": "127.0.0.1:0",
                "heartbeat_s": 1.0,
            },
            "gateway": {
                "control_socket": str(server.data / "hub.sock"),
                "name": "g1",
                "listen": "127.0.0.1:0",
                "workers": 1,
            },
        }
        folders = {}
        for who, process in ((NODE, "agent"), (GATEWAY, "gateway")):
            folders[who] = tmp_path / process
            values = settings[process] | {"data_dir": str(folders[who]), "tls": "on", "log_format": "json"}
            lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
            (tmp_path / f"{process}.toml").write_text("".join(lines))
            made = await server.call("POST", "/api/v1/join-tokens", {"part": who.part, "name": who.name})
            argv = [sys.executable, "-m", "llmgw", process, "join", "--config", str(tmp_path / f"{process}.toml")]
            joined = await asyncio.to_thread(
                subprocess.run,
                [*argv, "--via", server.agent_address],
                input=made["token"],
                text=True,
                capture_output=True,
                check=False,
            )
            assert joined.returncode == 0, joined.stderr
        await server.__aexit__()
        age(server, folders)
        await server.restart()

        async with running(tmp_path, "agent"), running(tmp_path, "gateway"):
            for folder in folders.values():
                await server.until(lambda folder=folder: young(folder), deadline_s=WAIT_S, step_s=0.5)
            assert server.get("/api/v1/nodes/n1")["connected"]
        for process in ("agent", "gateway"):
            log = (tmp_path / f"{process}.log").read_text()
            assert "certificate.renewed" in log
            assert "link.lost" not in log
            assert "Traceback" not in log, log
        argv = [sys.executable, "-m", "llmgw", "agent", "--config", str(tmp_path / "agent.toml"), "--stop-engines"]
        await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True, timeout=60)


def young(folder):
    return TlsIdentity(folder, join="").ends > datetime.now(UTC) + timedelta(days=6)
