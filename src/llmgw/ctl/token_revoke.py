"""`ctl token revoke TOKEN`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("revoke")
@click.argument("token")
@pass_session
def token_revoke(session: Session, token: str) -> None:
    """Revoke an operator's token, named by its public id (lt_…)."""
    answer = session.api.delete(f"/api/v1/tokens/{segment(token)}")
    session.say(f"{token} is revoked", answer)
