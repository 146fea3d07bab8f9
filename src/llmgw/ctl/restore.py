"""`ctl restore --into-new-cluster FILE`."""

import sys
from pathlib import Path

import click
import msgspec

from llmgw.core.backup import read
from llmgw.core.observing import RESUME
from llmgw.ctl.backup import STDOUT, TIMEOUT_S
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.backup import Restored
from llmgw.schema.errors import InvalidInput


@click.command()
@click.argument("file")
@click.option(
    "--into-new-cluster",
    is_flag=True,
    required=True,
    help="Say that the control plane asked is a new one, whose own keys and tokens may be replaced.",
)
@pass_session
def restore(session: Session, file: str, *, into_new_cluster: bool) -> None:
    """Put the backup in FILE (`-`: standard input) into a new cluster: one without nodes and models.

    Its keys, tokens and settings are replaced by those of the backup. Afterwards nothing is started or stopped until
    an operator resumes.
    """
    if not into_new_cluster:
        raise InvalidInput(
            "a backup can only be restored into a new cluster", hint="say --into-new-cluster", field="into_new_cluster"
        )
    found = read(_bytes(file))
    answer = session.api_within(TIMEOUT_S).post("/api/v1/restore", msgspec.to_builtins(found))
    session.say(_text(session.read(answer, Restored)), answer)


def _bytes(file: str) -> bytes:
    if file == STDOUT:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}", field="file") from error


def _text(done: Restored) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in done.rows.items() if count)
    logins = ", ".join(f"{login.name} ({login.id}, {login.role})" for login in done.logins)
    lines = [
        f"restored the backup of {done.taken_at:%Y-%m-%d %H:%M:%S} UTC by {done.taken_by}: {counts or 'nothing'}",
        f"epoch          {done.epoch}",
        f"tokens         {logins}",
    ]
    if not done.your_token_works:
        lines.append("               the one you used is not among them: it was made in the cluster that is replaced")
    if done.restarts:
        lines.append(
            "trust          the certificate authority of the backup: the control plane ends now; start it again"
        )
    lines.append(f"observing      nothing is started or stopped until: {RESUME}")
    lines.append("               llmgw ctl plan shows what that would do; llmgw ctl status who was heard")
    return "\n".join(lines)
