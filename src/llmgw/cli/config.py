"""`llmgw config example`: a commented TOML file for each process."""

import click
import msgspec

from llmgw.config.agent import AgentConfig
from llmgw.config.door import DoorConfig
from llmgw.config.example import render
from llmgw.config.gateway import GatewayConfig
from llmgw.config.server import ServerConfig

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
