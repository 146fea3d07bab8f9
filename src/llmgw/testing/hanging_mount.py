"""A real filesystem that hangs when a test says so, as one whose file server is gone: FUSE, spoken by hand.

An empty folder that answers until `hang`. Needs root and /dev/fuse.
"""

import contextlib
import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_HEADER = struct.Struct("<IIQQIIIHH")
_INIT, _GETATTR, _STATFS, _READDIR, _OPENDIR, _RELEASEDIR, _LOOKUP, _DESTROY = 26, 3, 17, 28, 27, 29, 1, 38
_UNANSWERED = frozenset({2, 36, 42})
"""Messages that take no answer: forget, interrupt, forget many."""
_MOST_READ = 1 << 20
_DIRECTORY = 0o40755
_MINOR = 31
_NOSUID_NODEV = 2 | 4
_DETACH = 2
_ROOT = 1


class HangingMount:
    """Mounted as `with HangingMount(folder) as mount`. At the end whoever waits is answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._device = -1
        self._answering = threading.Event()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def hang(self) -> None:
        """Answer nothing any more. What was asked waits for ever, and cannot be called off."""
        self._answering.clear()

    def recover(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._answering.set()

    def __enter__(self) -> Self:
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        words = [text.encode() for text in ("nas:/models", str(self._folder), "fuse.hanging")]
        if self._libc.mount(*words, _NOSUID_NODEV, options.encode()) != 0:
            os.close(self._device)
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self._folder))
        self._answering.set()
        threading.Thread(target=self._serve, name="hanging mount", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._libc.umount2(str(self._folder).encode(), _DETACH)
        # Answers what is still asked, so that whoever waits is let go, and with that the connection ends.
        self._answering.set()

    def _serve(self) -> None:
        try:
            while True:
                asked = os.read(self._device, _MOST_READ)
                self._answering.wait()
                self._answer(asked)
        except OSError:
            os.close(self._device)  # unmounted

    def _answer(self, asked: bytes) -> None:
        _, code, unique, *_ = _HEADER.unpack_from(asked)
        if code in _UNANSWERED:
            return
        known = _ANSWERS.get(code)
        number, body = (-errno.ENOSYS, b"") if known is None else known(asked[_HEADER.size :])
        with contextlib.suppress(FileNotFoundError):  # whoever asked was killed meanwhile
            os.write(self._device, struct.pack("<IiQ", 16 + len(body), number, unique) + body)


Answer = tuple[int, bytes]


def _init(asked: bytes) -> Answer:
    major, minor, read_ahead, _ = struct.unpack_from("<IIII", asked)
    return 0, struct.pack("<IIIIHHIIHHI28x", major, min(minor, _MINOR), read_ahead, 0, 16, 12, 4096, 1, 32, 0, 0)


def _attributes(_: bytes) -> Answer:
    attributes = struct.pack("<6Q10I", _ROOT, 0, 0, 0, 0, 0, 0, 0, 0, _DIRECTORY, 2, 0, 0, 0, 4096, 0)
    return 0, struct.pack("<QII", 0, 0, 0) + attributes


def _sizes(_: bytes) -> Answer:
    return 0, struct.pack("<5Q4I24x", 1000, 400, 400, 10, 10, 4096, 255, 4096, 0)


def _nothing(_: bytes) -> Answer:
    return 0, b""


def _handle(_: bytes) -> Answer:
    return 0, struct.pack("<QII", 1, 0, 0)


def _absent(_: bytes) -> Answer:
    return -errno.ENOENT, b""


_ANSWERS: Mapping[int, Callable[[bytes], Answer]] = {
    _INIT: _init,
    _GETATTR: _attributes,
    _STATFS: _sizes,
    _OPENDIR: _handle,
    _READDIR: _nothing,
    _RELEASEDIR: _nothing,
    _LOOKUP: _absent,
    _DESTROY: _nothing,
}
