"""`ctl server step-down`."""

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.control_plane import MAX_STEP_DOWN_S


@click.command("step-down")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(1, MAX_STEP_DOWN_S),
    default=30.0,
    show_default=True,
    help="Seconds it leaves the lead to others.",
)
@pass_session
def server_step_down(session: Session, *, seconds: float) -> None:
    """Have the control plane that leads hand over to another one, as before its maintenance."""
    answer = session.api.post("/api/v1/control-planes/step-down", {"seconds": seconds})
    others = ", ".join(answer["standing_by"])
    session.say(
        f"{answer['stepped_down']} let go for {answer['seconds']:g} s; one of these leads now: {others}", answer
    )
