"""A real agent on the laboratory's host of nodes, beside the fake ones: with door and engines of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from llmgw.testing.lab.network import Network
from llmgw.testing.lab.part import END_S, Part

HOST = "nodes"
DOOR_PORT = 8802


class RealAgent:
    """Agent of the node `name`; what it needs lies in `folder`, weights in `weights`."""

    def __init__(
        self, network: Network, folder: Path, *, name: str, servers: tuple[str, ...], token_file: Path
    ) -> None:
        self.weights = folder / "weights"
        self.weights.mkdir(parents=True)
        self._config = folder / "agent.toml"
        settings: dict[str, object] = {
            "data_dir": str(folder / "agent"),
            "servers": list(servers),
            "token_file": str(token_file),
            "node_id": name,
            "weights_dirs": [str(self.weights)],
            "door_listen": f"{network.addresses[HOST]}:{DOOR_PORT}",
            "heartbeat_s": 2.0,
            "discover_s": 5.0,
            "tls": "off",
            "log_format": "json",
        }
        self._config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        self._argv = (*network.enter(HOST), sys.executable, "-m", "llmgw", "agent", "--config", str(self._config))
        self._part = Part(self._argv, log=folder / "agent.log")

    @property
    def log(self) -> str:
        """All it logged."""
        return self._part.log.read_text()

    def start(self, *, more: Mapping[str, str]) -> None:
        """Start it with `more` in its environment."""
        self._part.start(more=more)

    def end(self) -> None:
        """End it, then its engines and its door, which outlive it."""
        self._part.end()
        subprocess.run((*self._argv, "--stop-engines"), check=False, capture_output=True, timeout=60 + END_S)
