"""What model files of all kinds have in common: pointers in place of files, and small JSON files beside them."""

import errno
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

LFS_MAGIC = b"version https://git-lfs"
LFS_PROBLEM = "is a Git LFS pointer, not the file itself; fetch it with git lfs pull"
MAX_JSON = 64 * 1024 * 1024
"""Bytes; an index of thousands of tensors has a few."""
UNFINISHED = (".incomplete", ".part", ".partial", ".crdownload", ".download", ".tmp", ".aria2")
"""Ends of the names that downloaders give to what they have not finished, after the file's own name."""
HUB_DOWNLOADS = Path(".cache", "huggingface", "download")
"""Where the hub's client keeps unfinished files, below the folder it loads into."""


class ModelFileError(Exception):
    """A file cannot be used; the text says why, in words for people."""


def is_unfinished_below(folder: Path) -> bool:
    """True when the hub's client has not finished loading something into `folder`."""
    try:
        return next(folder.rglob("*.incomplete"), None) is not None
    except OSError:
        return False


def printable(text: str) -> str:
    """Give text that can be sent: names of files are bytes, of any encoding or none."""
    return text.encode(errors="backslashreplace").decode()


def unreadable(error: OSError) -> str:
    """Say why a file or folder cannot be read."""
    match error.errno:
        case errno.ELOOP:
            return "is a link that leads in a circle"
        case errno.EACCES | errno.EPERM:
            return "may not be read by the agent's user"
        case errno.ESTALE:
            return "is gone from its file server (stale handle): mount it again"
        case _:
            return f"cannot be read: {error.strerror}"


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file beside the weights. Raises `ModelFileError` that names the file."""
    try:
        if path.stat().st_size > MAX_JSON:
            raise ModelFileError(f"{path.name} is too large to be what it should be")
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"lacks {path.name}") from error
    except OSError as error:
        raise ModelFileError(f"{path.name} {unreadable(error)}") from error
    if raw.startswith(LFS_MAGIC):
        raise ModelFileError(f"{path.name} {LFS_PROBLEM}")
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path.name} is not what it should be: {error}") from error
