"""`ctl model serve NAME --source S`: the one-line way to serve a model."""

from pathlib import Path

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.engine import EngineKind
from llmgw.schema.model import NEVER, Role, Routing


@click.command("serve")
@click.argument("name")
@click.option("--source", required=True, help="Path of the weights on the nodes, or hf:ORG/REPO@REVISION[:FILE].")
@click.option("--role", type=click.Choice([role.value for role in Role]), default=Role.CHAT.value, show_default=True)
@click.option(
    "--engine",
    type=click.Choice([kind.value for kind in EngineKind]),
    default=EngineKind.LLAMACPP.value,
    show_default=True,
)
@click.option("--engine-version", help="Default: the one the node has.")
@click.option("--min", "min_", type=click.IntRange(min=0), default=1, show_default=True, help="Replicas at least.")
@click.option("--max", "max_", type=click.IntRange(min=1), help="Replicas at most.  [default: as --min]")
@click.option(
    "--idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop replicas above --min when unasked so long."
)
@click.option(
    "--lost-after",
    metavar="SECONDS|never",
    help="Replace replicas on nodes silent for so long; 60 or more.  [default: the server's lost_after_s]",
)
@click.option(
    "--routing",
    type=click.Choice([routing.value for routing in Routing]),
    default=Routing.PREFIX.value,
    show_default=True,
    help="How gateways choose among its replicas.",
)
@click.option("--nodes", type=click.IntRange(min=1), help="Nodes a replica spans.")
@click.option("--devices-per-node", type=click.IntRange(min=0))
@click.option("--class", "class_", help="Class of devices, such as h100-80gb.")
@click.option("--cores", type=click.FloatRange(min=0, min_open=True), help="Cores to claim on each node.")
@click.option("--memory-gb", type=click.FloatRange(min=0, min_open=True), help="Host memory to claim, in GiB.")
@click.option("--context", type=click.IntRange(min=1), help="Tokens of context per slot.")
@click.option("--slots", type=click.IntRange(min=1), help="Requests one replica works on at a time.")
@click.option("--fabric", help="Fabric a replica of several nodes must lie in.")
@click.option("--chat-template", type=click.File("r"), help="File with a Jinja chat template.")
@click.option("--flag", "flags", multiple=True, metavar="KEY=VALUE", help="Flag for the engine; may be repeated.")
@click.option("--env", multiple=True, metavar="KEY=VALUE", help="Environment of the engine; may be repeated.")
@click.option("--node-selector", multiple=True, metavar="LABEL=VALUE", help="Only nodes with this label.")
@pass_session
def model_serve(
    session: Session,
    /,
    *,
    name: str,
    source: str,
    role: str,
    min_: int,
    max_: int | None,
    idle: float | None,
    lost_after: str | None,
    routing: str,
    **profile: object,
) -> None:
    """Serve a model under NAME, from weights the nodes have."""
    body = {
        "name": name,
        "source": _absolute(source),
        "role": role,
        "min": min_,
        "routing": routing,
        "profile": _profile(profile),
    }
    if max_ is not None:
        body["max"] = max_
    if idle is not None:
        body["idle_s"] = idle
    if lost_after is not None:
        body["lost_after"] = _lost_after(lost_after)
    answer = session.api.post("/api/v1/models", body)
    session.say(f"{name} will be served; watch it with: llmgw ctl model show {name}", answer)


def _lost_after(text: str) -> float | str:
    if text == NEVER:
        return text
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--lost-after {text!r}: write seconds, 60 or more, or never.") from None


def _absolute(source: str) -> str:
    """Make a path that exists here absolute; what only nodes can see passes as it is."""
    if source.startswith(("hf:", "/")) or not Path(source).exists():
        return source
    return str(Path(source).absolute())


def _profile(options: dict[str, object]) -> dict[str, object]:
    renamed = {"class_": "class"}
    profile = {renamed.get(key, key): value for key, value in options.items() if value not in (None, ())}
    for key in ("flags", "env", "node_selector"):
        if key in profile:
            profile[key] = _pairs(profile[key], option=key)
    template = profile.get("chat_template")
    if template is not None:
        profile["chat_template"] = template.read()  # type: ignore[attr-defined]  # click.File gives an open file
    return profile


def _pairs(given: object, *, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given if isinstance(given, tuple) else ():
        key, equals, value = str(text).partition("=")
        if not equals or not key:
            shown = option.removesuffix("s").replace("_", "-") if option == "flags" else option.replace("_", "-")
            raise click.UsageError(f"--{shown} {text!r}: write KEY=VALUE.")
        pairs[key] = value
    return pairs
