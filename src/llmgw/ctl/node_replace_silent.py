"""`ctl node replace-silent`."""

import click

from llmgw.ctl.session import Session, pass_session


@click.command("replace-silent")
@pass_session
def node_replace_silent(session: Session) -> None:
    """Replace nodes that fell silent together with many others, instead of waiting until they are back."""
    answer = session.api.post("/api/v1/nodes/replace-silent")
    names = ", ".join(answer["nodes"])
    session.say(f"may be replaced: {names}" if names else "no node is held", answer)
