"""`ctl key create NAME`."""

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.key import CreatedKey


@click.command("create")
@click.argument("name")
@click.option("--project", default="default", show_default=True)
@pass_session
def key_create(session: Session, name: str, project: str) -> None:
    """Make an API key. Its secret is shown now and never again."""
    answer = session.api.post("/api/v1/keys", {"name": name, "project": project})
    session.say(session.read(answer, CreatedKey).secret, answer)
