"""`llmgw server|gateway|agent|door`: one process each, from a TOML file."""

import sys
from pathlib import Path

import click

from llmgw.cli.join import agent_join, gateway_join, server_join
from llmgw.config.agent import AgentConfig
from llmgw.config.door import DoorConfig
from llmgw.config.gateway import GatewayConfig
from llmgw.config.load import load
from llmgw.config.server import ServerConfig
from llmgw.schema.view import ENGINE_KINDS

_CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    envvar="LLMGW_CONFIG",
    help="TOML file; `llmgw config example` prints one.",
)


def _required(config_file: Path | None, name: str) -> Path:
    if config_file is None:
        raise click.UsageError(f"--config FILE is needed; `llmgw config example {name}` prints one.")
    return config_file


@click.group(invoke_without_command=True)
@_CONFIG
@click.pass_context
def server(context: click.Context, config_file: Path | None) -> None:
    """Run a control plane: API, console, agent server, reconciler."""
    if context.invoked_subcommand is not None:
        return
    config = load(ServerConfig, _required(config_file, "server"))
    from llmgw.server.main import run

    sys.exit(run(config))


@click.group(invoke_without_command=True)
@_CONFIG
@click.option("--stop-engines", is_flag=True, help="Stop all engines and the door of this node, then end.")
@click.pass_context
def agent(context: click.Context, config_file: Path | None, *, stop_engines: bool) -> None:
    """Run a node's agent: discovery, engines, reports. Engines outlive it."""
    if context.invoked_subcommand is not None:
        return
    config = load(AgentConfig, _required(config_file, "agent"))
    from llmgw.agent import main as agent_main

    sys.exit(agent_main.stop_engines(config) if stop_engines else agent_main.run(config))


@click.command()
@_CONFIG
def door(config_file: Path | None) -> None:
    """Run a node's door: the way for gateways of other machines to this node's engines."""
    config = load(DoorConfig, _required(config_file, "door"))
    from llmgw.door.main import run

    sys.exit(run(config))


@click.group(invoke_without_command=True)
@_CONFIG
@click.option("--port", type=click.IntRange(0, 65535), help="Alone: port to listen on (127.0.0.1).")
@click.option("--model", "models", multiple=True, help="Alone: name of a model; once per --engine.")
@click.option("--engine", "engines", multiple=True, help="Alone: URLs of its engines, separated by commas.")
@click.option("--engine-kind", type=click.Choice(ENGINE_KINDS), default="openai", show_default=True)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Alone: worker processes.")
@click.option(
    "--share",
    type=click.Path(path_type=Path, file_okay=False),
    help="Alone: gateways of this machine with the same folder route by what all of them know.",
)
@click.pass_context
def gateway(
    context: click.Context,
    *,
    config_file: Path | None,
    port: int | None,
    models: tuple[str, ...],
    engines: tuple[str, ...],
    engine_kind: str,
    workers: int,
    share: Path | None,
) -> None:
    """Run a gateway: from a file as part of a fleet, or alone in front of engines that already run.

    Alone, the key clients must send is read from LLMGW_GATEWAY_KEY; without it none is asked for.
    """
    if context.invoked_subcommand is not None:
        return
    from llmgw.gateway import main as gateway_main

    if config_file is not None:
        if models or engines:
            raise click.UsageError("--config and --model/--engine exclude each other.")
        sys.exit(gateway_main.run(load(GatewayConfig, config_file)))
    if not models or len(models) != len(engines) or port is None:
        raise click.UsageError("Give --config FILE, or --port P and as many --engine as --model.")
    routes = {name: tuple(url.strip() for url in urls.split(",")) for name, urls in zip(models, engines, strict=True)}
    sys.exit(gateway_main.run_alone(port=port, routes=routes, engine_kind=engine_kind, workers=workers, share=share))


server.add_command(server_join)
agent.add_command(agent_join)
gateway.add_command(gateway_join)
