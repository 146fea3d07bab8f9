"""`ctl backup FILE`."""

import json
import os
import sys
from pathlib import Path

import click

from llmgw.config.contexts import replace_private
from llmgw.core.backup import read
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.errors import Conflict, InvalidInput

TIMEOUT_S = 120.0
STDOUT = "-"


@click.command()
@click.argument("file")
@pass_session
def backup(session: Session, file: str) -> None:
    """Write the whole store to FILE, or to standard output with `-`.

    Any control plane gives it, a standby too. The file holds secrets: the keys of engines and what keys and tokens are
    checked against. It is made readable by its owner only, and never written to a terminal.
    """
    if file == STDOUT:
        _refuse_terminal()
    else:
        _refuse_existing(Path(file))
    answer = session.api_within(TIMEOUT_S).get("/api/v1/backup")
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n"
    taken = read(text.encode())
    if file == STDOUT:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return
    _write(Path(file), text)
    rows = sum(len(rows) for rows in taken.content.tables.values())
    session.say(
        f"{file}: backup of {taken.taken_at:%Y-%m-%d %H:%M:%S} UTC by {taken.taken_by} (llmgw {taken.llmgw}, "
        f"schema {taken.content.schema}, epoch {taken.content.epoch}, {rows} rows); it holds secrets: keep it safe",
        {"file": file, "taken_at": answer["taken_at"], "taken_by": taken.taken_by, "sha256": taken.sha256},
    )


def _refuse_terminal() -> None:
    if sys.stdout.isatty():
        raise InvalidInput(
            "a backup holds secrets, and is not written to a terminal",
            hint="name a file, or send standard output somewhere: llmgw ctl backup - | gpg -c > llmgw.backup.gpg",
            field="file",
        )


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise Conflict(f"{path} is there already", hint="name another file, or remove it first")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"there is no folder {path.absolute().parent}", hint="make it first", field="file")


def _write(path: Path, text: str) -> None:
    try:
        replace_private(path, text)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", field="file") from error
