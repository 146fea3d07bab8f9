"""A small filesystem of its own, mounted for a test, that can be filled to the last byte and emptied again."""

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

_FILLER = "filler"
_STEP = 64 * 1024


def missing() -> str | None:
    """Say why no filesystem can be mounted here; `None` when one can."""
    if os.geteuid() != 0:
        return "mounting a small filesystem needs root"
    probe = Path(f"/tmp/llmgw-mount-{os.getpid()}")  # noqa: S108 - made and removed here, never written
    probe.mkdir(exist_ok=True)
    try:
        with SmallDisk(probe, mib=1):
            return None
    except subprocess.CalledProcessError as error:
        return f"a small filesystem cannot be mounted here: {error.stderr.strip()}"
    finally:
        probe.rmdir()


class SmallDisk:
    """A tmpfs on the folder `path`. Use as a context: it is unmounted at the end, whoever still has it open."""

    def __init__(self, path: Path, *, mib: int, files: int = 0) -> None:
        self.path = path
        self._options = f"size={mib}m,mode=0755" + (f",nr_inodes={files}" if files else "")

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", self._options, "llmgw-test", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", "--lazy", str(self.path))

    def fill(self) -> None:
        """Take all room that is left, to the last page; what is there stays."""
        self._fill(self.path / _FILLER)

    def fill_files(self) -> None:
        """Take all files that could still be made, and leave the room."""
        folder = self.path / f"{_FILLER}s"
        folder.mkdir(exist_ok=True)
        number = len(list(folder.iterdir()))
        try:
            while True:
                (folder / str(number)).touch()
                number += 1
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        """Give back what filling took."""
        (self.path / _FILLER).unlink(missing_ok=True)
        shutil.rmtree(self.path / f"{_FILLER}s", ignore_errors=True)

    def left(self) -> int:
        """Give the bytes that are left."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def _fill(self, path: Path) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for step in (_STEP, 1):
                try:
                    while os.write(handle, b"\0" * step):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        finally:
            os.close(handle)


def _run(*argv: str) -> None:
    program = shutil.which(argv[0]) or argv[0]
    subprocess.run([program, *argv[1:]], check=True, capture_output=True, text=True, timeout=30)
