"""`ctl node|server|gateway token NAME`: lets one machine join."""

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.join_token import CreatedJoinToken
from llmgw.schema.identity import Part


@click.command("token")
@click.argument("name")
@pass_session
def node_token(session: Session, name: str) -> None:
    """Make a token that lets node NAME join, once, within 15 minutes: feed it to `llmgw agent join` there.

    It is shown now and never again, alone on standard output, so that it can be piped.
    """
    _make(session, Part.NODE, name)


@click.command("token")
@click.argument("name")
@pass_session
def server_token(session: Session, name: str) -> None:
    """Make a token that lets control plane NAME join, once, within 15 minutes: feed it to `llmgw server join` there.

    It is shown now and never again, alone on standard output, so that it can be piped.
    """
    _make(session, Part.SERVER, name)


@click.command("token")
@click.argument("name")
@click.option("--host", "hosts", multiple=True, help="Name or address its clients reach it by; may be repeated.")
@pass_session
def gateway_token(session: Session, name: str, hosts: tuple[str, ...]) -> None:
    """Make a token that lets gateway NAME join, once, within 15 minutes: feed it to `llmgw gateway join` there.

    It is shown now and never again, alone on standard output, so that it can be piped.
    """
    _make(session, Part.GATEWAY, name, hosts)


def _make(session: Session, part: Part, name: str, hosts: tuple[str, ...] = ()) -> None:
    body: dict[str, object] = {"part": part.value, "name": name}
    answer = session.api.post("/api/v1/join-tokens", {**body, "hosts": list(hosts)} if hosts else body)
    session.say(session.read(answer, CreatedJoinToken).token, answer)
