"""The agent's folder as small private files, each replaced as a whole. What finds no room is written once there is."""

from pathlib import Path
from typing import TypeVar

import msgspec

from llmgw.config import disk
from llmgw.config.contexts import replace_private
from llmgw.telemetry import log

T = TypeVar("T")
_log = log.get(__name__)


class Folder:
    """Files of one folder, by name. Reading and writing are small and local, so they are done in place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._unsaved: dict[str, str] = {}
        self._error: str | None = None

    def read(self, name: str, kind: type[T]) -> T | None:
        """Read a file; `None` when there is none, or none that can be read."""
        path = self.root / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            # A file of another version, or damaged: what it held is lost, the agent goes on.
            _log.error("state.unreadable", path=str(path), error=str(error))
            return None

    def write(self, name: str, value: object) -> None:
        """Write now. Raises `OSError`; the old file stays then."""
        self._write(name, msgspec.json.encode(value).decode())

    def keep(self, name: str, value: object) -> None:
        """Write now, or as soon as that is possible: what runs must not end because a disk is full."""
        self.keep_text(name, msgspec.json.encode(value).decode())

    def keep_text(self, name: str, text: str) -> None:
        """Do as `keep` does, with a text that is no JSON."""
        self._unsaved[name] = text
        self.retry()

    def forget(self, name: str) -> None:
        """Remove a file; no-op when there is none."""
        self._unsaved.pop(name, None)
        (self.root / name).unlink(missing_ok=True)

    def retry(self) -> None:
        """Write what could not be written before."""
        failed: OSError | None = None
        for name, content in tuple(self._unsaved.items()):
            try:
                self._write(name, content)
            except OSError as error:
                failed = error
        self._tell(failed)

    def problem(self) -> str | None:
        """Say in words what is wrong with the folder's disk; `None` when nothing is."""
        if disk.is_full(self.root):
            return full(self.root)
        return self._error

    def _write(self, name: str, content: str) -> None:
        replace_private(self.root / name, content)
        self._unsaved.pop(name, None)

    def _tell(self, error: OSError | None) -> None:
        """Tell a problem once, and its end."""
        before = self._error
        if error is None:
            self._error = None
        elif disk.is_want_of_room(error):
            self._error = full(self.root)
        else:
            self._error = f"nothing can be written to the agent's data_dir {self.root}: {error.strerror}"
        if self._error is not None and before is None:
            _log.error("state.unsaved", files=sorted(self._unsaved), problem=self._error)
        if self._error is None and before is not None:
            _log.info("state.saved", folder=str(self.root))


def full(root: Path) -> str:
    """Say that there is no room."""
    return f"the disk of the agent's data_dir {root} is full: no engine can be started until there is room"
