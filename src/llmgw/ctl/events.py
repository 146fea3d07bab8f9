"""`ctl events`."""

import click

from llmgw.ctl.output import table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.event import EventList


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@pass_session
def events(session: Session, limit: int) -> None:
    """List what happened lately, newest last."""
    session.show(session.api.get(f"/api/v1/events?limit={limit}"), EventList, _table)


def _table(answer: EventList) -> str:
    rows = [
        (f"{event.at:%Y-%m-%d %H:%M:%S}Z", event.severity, event.kind, event.message)
        for event in reversed(answer.events)
    ]
    return table(("AT", "SEVERITY", "KIND", "MESSAGE"), rows, empty="nothing happened yet")
