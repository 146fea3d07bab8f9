"""`llmgw agent|server|gateway join`: this machine becomes part of a cluster that uses mutual TLS."""

import asyncio
import sys
from pathlib import Path

import click

from llmgw.config.agent import AgentConfig
from llmgw.config.data_dir import make_data_dir
from llmgw.config.gateway import GatewayConfig
from llmgw.config.load import load
from llmgw.config.server import ServerConfig
from llmgw.config.tls import Tls, split_address
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Identity, Part

_CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    envvar="LLMGW_CONFIG",
    required=True,
    help="TOML file of the process that will run here.",
)
_TOKEN = click.option(
    "--token-file", type=click.Path(path_type=Path), help="File with the join token; default standard input."
)
_VIA = click.option("--via", multiple=True, metavar="HOST:PORT", help="Agents' address of a control plane.")


@click.command("join")
@_CONFIG
@_TOKEN
@_VIA
def agent_join(config_file: Path, token_file: Path | None, via: tuple[str, ...]) -> None:
    """Get this node its certificate. Control planes are those in the file, unless --via names others.

    The token comes from `llmgw ctl node token NAME`, on standard input or in a file: never as an argument, which others
    on this machine could read.
    """
    from llmgw.agent.local_state import LocalState

    config = load(AgentConfig, config_file)
    _require_tls(config.tls, config_file)
    data_dir = make_data_dir(config.data_dir)
    identity = Identity(part=Part.NODE, name=LocalState(config.data_dir).node_id(config.node_id))
    _join(identity, data_dir, addresses=via or config.servers, token_file=token_file)
    click.echo(f"start it: llmgw agent --config {config_file}")


@click.command("join")
@_CONFIG
@_TOKEN
@_VIA
def server_join(config_file: Path, token_file: Path | None, via: tuple[str, ...]) -> None:
    """Make this machine another control plane of a cluster; --via names one that runs.

    The token comes from `llmgw ctl server token NAME`, on standard input or in a file.
    """
    config = load(ServerConfig, config_file)
    _require_tls(config.tls, config_file)
    _require_via(via)
    identity = Identity(part=Part.SERVER, name=config.name)
    _join(identity, make_data_dir(config.data_dir), addresses=via, token_file=token_file)
    click.echo(f"start it: llmgw server --config {config_file}")


@click.command("join")
@_CONFIG
@_TOKEN
@_VIA
def gateway_join(config_file: Path, token_file: Path | None, via: tuple[str, ...]) -> None:
    """Get this gateway its certificate; --via names a control plane.

    The token comes from `llmgw ctl gateway token NAME`, on standard input or in a file.
    """
    config = load(GatewayConfig, config_file)
    _require_tls(config.tls, config_file)
    _require_via(via)
    identity = Identity(part=Part.GATEWAY, name=config.name)
    _join(identity, make_data_dir(config.data_dir), addresses=via, token_file=token_file)
    click.echo(f"start it: llmgw gateway --config {config_file}")


def _join(identity: Identity, data_dir: Path, *, addresses: tuple[str, ...], token_file: Path | None) -> None:
    # Not above: `--help` needs no certificates.
    from llmgw.link.identity import TlsIdentity, write_identity, write_secret
    from llmgw.link.join import join, read_ticket

    for address in addresses:
        split_address(address, field="via")
    found = asyncio.run(join(addresses, read_ticket(_read_token(token_file)), identity))
    try:
        write_identity(data_dir, key=found.key, certificate=found.certificate, authority=found.authority)
        if found.authority_secret is not None:
            write_secret(data_dir, found.authority_secret)
    except OSError as error:
        raise InvalidInput(
            f"joined, but the certificate cannot be written to {data_dir}: {error.strerror}",
            hint="make room or choose another data_dir, then join again with a new token",
            field="data_dir",
        ) from error
    own = TlsIdentity(data_dir, join="llmgw join")
    click.echo(f"joined as {own.identity}; the certificate ends {own.ends:%Y-%m-%d %H:%M} UTC and is renewed before")


def _read_token(path: Path | None) -> str:
    if path is None:
        if sys.stdin.isatty():
            return str(click.prompt("join token", hide_input=True))
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"cannot read {path}: {why}", hint="it must hold the join token", field="token") from error


def _require_tls(tls: Tls, config_file: Path) -> None:
    if tls is not Tls.ON:
        raise InvalidInput(
            f"{config_file} does not use mutual TLS, so there is nothing to join",
            hint='write tls = "on" into it',
            field="tls",
        )


def _require_via(via: tuple[str, ...]) -> None:
    if not via:
        raise click.UsageError("--via HOST:PORT is needed: the agents' address of a control plane that runs.")
