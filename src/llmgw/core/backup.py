"""Backup files: made whole, and read with a reason for each that cannot be used."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from llmgw.schema.backup import FORMAT, FORMAT_VERSION, Backup, Content
from llmgw.schema.errors import InvalidInput

_CANONICAL = msgspec.json.Encoder(order="deterministic")
_OTHER = "give a file that `llmgw ctl backup` wrote"
_DAMAGED = "take another copy of the file, or another backup"


def seal(content: Content, *, llmgw: str, taken_at: datetime, taken_by: str) -> Backup:
    """Make a backup of `content`."""
    return Backup(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        llmgw=llmgw,
        taken_at=taken_at,
        taken_by=taken_by,
        sha256=checksum(content),
        content=content,
    )


def checksum(content: Content) -> str:
    """Give the checksum of `content`, whatever the file's spaces and order."""
    return hashlib.sha256(_CANONICAL.encode(content)).hexdigest()


def read(data: bytes) -> Backup:
    """Read a backup. Raises `InvalidInput` for what is none, is damaged, or is of a newer format."""
    raw = _decoded(data)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise _refusal("the file is no backup of llmgw", _OTHER)
    version = raw.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise too_new(f"format {version}, of llmgw {raw.get('llmgw')}", f"format {FORMAT_VERSION}")
    try:
        backup = msgspec.convert(raw, Backup)
    except msgspec.ValidationError as error:
        raise _refusal(f"the backup is damaged: {error}", _DAMAGED) from error
    if checksum(backup.content) != backup.sha256:
        raise _refusal("the backup is damaged: its content is not what its checksum says", _DAMAGED)
    return backup


def too_new(found: str, known: str) -> InvalidInput:
    """Give the refusal of what a newer release wrote."""
    return InvalidInput(
        f"the backup is of a newer release ({found}); this one knows {known}",
        hint="restore it with the release that took it, or a newer one",
        field="backup",
        code="backup_too_new",
    )


def _decoded(data: bytes) -> Any:
    if not data.strip():
        raise _refusal("the file is empty", _OTHER)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not data.lstrip().startswith(b"{"):
            raise _refusal("the file is no backup of llmgw: it is not JSON", _OTHER) from error
        if "truncated" in str(error):
            raise _refusal(f"the backup is cut off after {len(data)} bytes", _DAMAGED) from error
        raise _refusal(f"the backup is damaged: {error}", _DAMAGED) from error


def _refusal(message: str, hint: str) -> InvalidInput:
    return InvalidInput(message, hint=hint, field="backup", code="backup_unreadable")
