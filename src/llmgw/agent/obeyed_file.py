"""The orders obeyed last, on disk in a way that needs no room: an epoch must be remembered on a full disk too."""

import os
from pathlib import Path

import msgspec

from llmgw.agent.obeyed import Obeyed
from llmgw.telemetry import log

_SLOT_BYTES = 512
"""One sector: disks write it whole, or not at all."""
_log = log.get(__name__)


class ObeyedFile:
    """Two files of one size, written over in turn: one is whole whenever the machine stops."""

    def __init__(self, root: Path) -> None:
        self._slots = (root / "epoch.json", root / "epoch-2.json")

    def make(self) -> None:
        """Make what is missing, so that later changes find their place taken already. Raises `OSError`."""
        known = self.read()
        for slot in self._slots:
            if not slot.exists():
                _write_over(slot, known)

    def read(self) -> Obeyed:
        """Give what was obeyed last."""
        return max((_read(slot) or Obeyed() for slot in self._slots), key=_age)

    def save(self, obeyed: Obeyed) -> None:
        """Remember it, synced, in place of the older of the two. Raises `OSError`."""
        _write_over(min(self._slots, key=lambda slot: _age(_read(slot) or Obeyed())), obeyed)


def _age(obeyed: Obeyed) -> tuple[int, int]:
    """Neither of the two ever goes back, see `obeyed.refusal`."""
    return obeyed.epoch, obeyed.generation


def _read(path: Path) -> Obeyed | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Obeyed)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        _log.error("state.unreadable", path=str(path), error=str(error))
        return None


def _write_over(path: Path, obeyed: Obeyed) -> None:
    content = msgspec.json.encode(obeyed)
    content += b" " * (-len(content) % _SLOT_BYTES)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(handle, content, 0)
        os.ftruncate(handle, len(content))
        os.fsync(handle)
    finally:
        os.close(handle)
