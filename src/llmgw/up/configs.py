"""The configuration files of one machine's processes, written anew at each start."""

import json
from pathlib import Path

from llmgw.config.contexts import replace_private
from llmgw.up.layout import Layout
from llmgw.up.state import UpState


def write_configs(layout: Layout, state: UpState, *, weights_dirs: tuple[Path, ...]) -> None:
    """Write one TOML file per process."""
    loopback = "127.0.0.1"
    _write(
        layout.config("server"),
        {
            "data_dir": str(layout.root),
            "api_listen": f"{loopback}:{state.api_port}",
            "agent_listen": f"{loopback}:{state.agent_port}",
            "gateway_url": base_url(state),
            "gateway_socket": str(layout.hub_socket),
            "agent_token_file": str(layout.agent_token),
            "credentials_file": str(layout.credentials),
        },
    )
    _write(
        layout.config("gateway"),
        {
            "data_dir": str(layout.data("gateway")),
            "control_socket": str(layout.hub_socket),
            "listen": f"{loopback}:{state.gateway_port}",
        },
    )
    _write(
        layout.config("agent"),
        {
            "data_dir": str(layout.data("agent")),
            "servers": [f"{loopback}:{state.agent_port}"],
            "token_file": str(layout.agent_token),
            "weights_dirs": [str(folder) for folder in weights_dirs],
            "door_listen": f"{loopback}:{state.door_port}",
        },
    )


def base_url(state: UpState) -> str:
    """Give the URL clients use."""
    return f"http://127.0.0.1:{state.gateway_port}/v1"


def api_url(state: UpState) -> str:
    """Give the root of API and console."""
    return f"http://127.0.0.1:{state.api_port}"


def _write(path: Path, values: dict[str, object]) -> None:
    # Strings and lists of strings look the same in TOML and JSON.
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    replace_private(path, "\n".join(lines) + "\n")
