"""`ctl server list`."""

import click

from llmgw.ctl.output import table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.control_plane import ControlPlaneList


@click.command("list")
@pass_session
def server_list(session: Session) -> None:
    """List control planes: which leads, which stand by, which do not answer."""
    session.show(session.api.get("/api/v1/control-planes"), ControlPlaneList, _table)


def _table(answer: ControlPlaneList) -> str:
    rows = [(row.name, row.state, row.address, "this" if row.this else "") for row in answer.control_planes]
    return table(("CONTROL PLANE", "STATE", "ADDRESS", ""), rows, empty="none is known")
