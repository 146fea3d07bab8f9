"""A gateway as it runs in a fleet, with all that is on by default: keys, permits, metrics, a line per request.

It serves from its last routing view, as it does while no control plane answers; the view is written here. This process
becomes the gateway. The client key is read from LLMGW_GATEWAY_KEY.

    python benchmarks/fleet_gateway.py --port 8000 --dir SCRATCH --engines http://127.0.0.1:21000
"""

import argparse
import os
import secrets
import sys
from pathlib import Path

from llmgw.gateway.authenticate import hash_of
from llmgw.gateway.view_file import ViewFile
from llmgw.schema.model import Role
from llmgw.schema.view import KeyEntry, KeysSection, Route, RouteReplica, RoutesSection, View

MODEL = "mock"
SLOTS = 4096
"""More than any load here asks for: permits are taken and given back, nobody waits."""


def main() -> None:
    """Write view and configuration, then become `llmgw gateway`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True, help="scratch folder")
    parser.add_argument("--engines", required=True, help="URLs, separated by commas")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    folder: Path = options.dir
    ViewFile(folder / "view.json").save(_view(options.engines.split(","), os.environ["LLMGW_GATEWAY_KEY"]))
    config = folder / "gateway.toml"
    config.write_text(
        f'data_dir = "{folder}"\ncontrol_socket = "{folder}/hub.sock"\n'
        f'listen = "127.0.0.1:{options.port}"\nworkers = {options.workers}\n'
    )
    os.execv(sys.executable, [sys.executable, "-m", "llmgw", "gateway", "--config", str(config)])  # noqa: S606 (no shell is wanted)


def _view(engines: list[str], key: str) -> View:
    replicas = tuple(
        RouteReplica(id=f"r{n}", shard=f"r{n}.0", node="here", endpoint=url, key=secrets.token_hex(), slots=SLOTS)
        for n, url in enumerate(engines)
    )
    hash_key = secrets.token_bytes(32)
    entry = KeyEntry(id="lk_benchmrk", hash=hash_of(hash_key, key.encode()), project="default")
    return View(
        source="benchmark",
        routes=RoutesSection(version=1, routes=(Route(model=MODEL, role=Role.CHAT, created=0, replicas=replicas),)),
        keys=KeysSection(version=1, hash_key=hash_key.hex(), keys=(entry,)),
    )


if __name__ == "__main__":
    main()
