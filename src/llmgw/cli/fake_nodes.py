"""`llmgw fake-nodes`: a fleet that is not there, for tests, demos and capacity planning."""

from pathlib import Path
from urllib.parse import urlsplit

import click

from llmgw.ctl.session import find_api
from llmgw.link.api import Api
from llmgw.schema.errors import InvalidInput

_TROUBLES = ("freeze", "partition", "kill", "flap")


@click.command("fake-nodes")
@click.option("--count", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many nodes.")
@click.option("--kind", help="What machines they are: cpu-small, h100x8, …; an unknown one lists all.")
@click.option("--fabric", multiple=True, help="Fabric they are attached to; may be repeated.")
@click.option("--weights", multiple=True, metavar="PATH", help="Weights they see; may be repeated.")
@click.option("--name", help="Beginning of their names.  [default: the kind]")
@click.option("--file", "file", type=click.Path(path_type=Path), help="TOML or YAML with several kinds as [[nodes]].")
@click.option("--context", help="Context of ctl to join.  [default: the current one]")
@click.option("--server", multiple=True, help="Agents' address HOST:PORT to join instead of a context; all of several.")
@click.option("--token-file", type=click.Path(path_type=Path), help="File with the agents' token, beside --server.")
@click.option("--heartbeat", type=click.FloatRange(0.1, 15), default=5.0, show_default=True, help="Seconds.")
@click.option("--start", type=click.FloatRange(0, 3600), default=0.5, show_default=True, help="Seconds a start takes.")
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address of their doors, for gateways.")
@click.option("--obeyed", type=click.Path(path_type=Path), help="File to note in whom each node obeys and refuses.")
@click.option("--freeze", type=click.IntRange(0), default=0, help="Agents that hang while their engines answer.")
@click.option("--partition", type=click.IntRange(0), default=0, help="Nodes that nothing reaches.")
@click.option("--kill", type=click.IntRange(0), default=0, help="Nodes that are switched off.")
@click.option("--flap", type=click.IntRange(0), default=0, help="Agents whose stream breaks again and again.")
def fake_nodes(
    *,
    count: int,
    kind: str | None,
    fabric: tuple[str, ...],
    weights: tuple[str, ...],
    name: str | None,
    file: Path | None,
    context: str | None,
    server: tuple[str, ...],
    token_file: Path | None,
    heartbeat: float,
    start: float,
    listen: str,
    obeyed: Path | None,
    **troubles: int,
) -> None:
    """Run fake nodes over the real protocol until Ctrl-C.

    Their engines answer as OpenAI engines that count. Give models --engine fake to use any class of devices.
    Commands on standard input: freeze, partition, kill, flap, heal, each with a number or names of nodes; status.
    """
    from llmgw.testing.fake_nodes import NodeGroup
    from llmgw.testing.fake_nodes_process import read_groups, run

    if (file is None) == (kind is None):
        raise click.UsageError("Give either --kind or --file.")
    if bool(server) != (token_file is not None):
        raise click.UsageError("--server and --token-file belong together.")
    if file is not None:
        groups = read_groups(file)
    else:
        groups = (NodeGroup(kind=kind or "", count=count, name=name, fabric=fabric, weights=weights),)
    if server and token_file is not None:
        addresses, token = server, token_file.read_text().strip()
    else:
        address, token = _of_context(context)
        addresses = (address,)
    commands = tuple(f"{verb} {troubles[verb]}" for verb in _TROUBLES if troubles[verb])
    run(
        groups,
        servers=addresses,
        token=token,
        heartbeat_s=heartbeat,
        start_s=start,
        host=listen,
        commands=commands,
        obeyed=obeyed,
    )


def _of_context(context: str | None) -> tuple[str, str]:
    """Ask the control plane of a context how agents join it."""
    found = find_api(context)
    link = Api(found.root, found.token, ca_file=found.ca_file).get("/api/v1/agent-link")
    if link.get("token") is None:
        raise InvalidInput(
            "this cluster's machines join with certificates, which fake nodes do not have",
            hint='run them against a control plane without tls = "on"',
        )
    host, _, port = str(link["address"]).rpartition(":")
    if host in {"0.0.0.0", "[::]"}:  # noqa: S104 - compared with, not bound
        host = urlsplit(found.root).hostname or host
    return f"{host}:{port}", str(link["token"])
