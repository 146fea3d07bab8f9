"""`ctl key revoke KEY`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("revoke")
@click.argument("key")
@pass_session
def key_revoke(session: Session, key: str) -> None:
    """Revoke an API key, named by its public id (lk_…)."""
    answer = session.api.delete(f"/api/v1/keys/{segment(key)}")
    session.say(f"{key} is revoked", answer)
