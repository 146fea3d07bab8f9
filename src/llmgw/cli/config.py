"""`llmgw config`: a commented TOML file for each process, and the files around several control planes."""

from pathlib import Path

import click
import msgspec

from llmgw.config.agent import AgentConfig
from llmgw.config.door import DoorConfig
from llmgw.config.example import render
from llmgw.config.gateway import GatewayConfig
from llmgw.config.load import load
from llmgw.config.server import ServerConfig
from llmgw.install.plan import ClusterPlan, files, one_file

_KINDS: dict[str, type[msgspec.Struct]] = {
    "server": ServerConfig,
    "gateway": GatewayConfig,
    "agent": AgentConfig,
    "door": DoorConfig,
}


@click.group()
def config() -> None:
    """Configuration files."""


@config.command()
@click.argument("process", type=click.Choice(tuple(_KINDS)))
def example(process: str) -> None:
    """Print a complete, commented configuration file for PROCESS."""
    click.echo(render(_KINDS[process], process), nl=False)


@config.command("render")
@click.option("--file", "plan", type=click.Path(path_type=Path), required=True, help="TOML file with all hosts.")
@click.option("--host", required=True, help="Name of the host whose files are wanted.")
@click.argument("path", required=False)
def render_(plan: Path, host: str, path: str | None) -> None:
    """Print what keepalived, Patroni and etcd need on one host of several control planes.

    With PATH only that file, to be redirected; without it all of them, each below its path. Nothing is installed.
    """
    planned = load(ClusterPlan, plan, hint="docs/how-to/several-control-planes.md shows such a file")
    if path is not None:
        click.echo(one_file(planned, host, path), nl=False)
        return
    for name, text in files(planned, host).items():
        click.echo(f"### {name}\n{text}")
