"""`ctl token create NAME --role ROLE`."""

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.token import CreatedToken
from llmgw.schema.key import AdminRole


@click.command("create")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in AdminRole]),
    required=True,
    help="What it may do: look, look and act, or also make keys and tokens.",
)
@pass_session
def token_create(session: Session, name: str, role: str) -> None:
    """Make an operator's token. Its secret is shown now and never again."""
    answer = session.api.post("/api/v1/tokens", {"name": name, "role": role})
    session.say(session.read(answer, CreatedToken).secret, answer)
