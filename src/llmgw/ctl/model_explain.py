"""`ctl model explain NAME`."""

import click

from llmgw.core.explain_text import explain_text
from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.explain import Explanation


@click.command("explain")
@click.argument("name")
@pass_session
def model_explain(session: Session, name: str) -> None:
    """Say why a model has fewer replicas than it should, and the smallest changes that would make one more fit.

    Each change is tried on a copy of the fleet before it is told.
    """
    session.show(session.api.get(f"/api/v1/models/{segment(name)}/explain"), Explanation, explain_text)
