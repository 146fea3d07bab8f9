"""One program on one host of the laboratory: started in a process group of its own, killed, frozen, ended."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

END_S = 15.0


class Part:
    """A program. `user` runs it unprivileged. Starting again appends to the same log."""

    def __init__(
        self,
        argv: tuple[str, ...],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.log = log
        self._argv = argv
        self._env = dict(env or {})
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process; 0 when it does not run."""
        return self._process.pid if self._process is not None else 0

    def start(self, *, more: Mapping[str, str] | None = None) -> None:
        """Start it; `more` is added to its environment, this time."""
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.log.parent), **self._env, **(more or {})}
        argv = self._argv
        if self._user is not None:
            at = argv.index("--") if "--" in argv else 0
            words = ("setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--init-groups")
            argv = (*argv[:at], *words, *argv[at + 1 :])
        else:
            argv = tuple(word for word in argv if word != "--")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, cwd="/", start_new_session=True)

    def runs(self) -> bool:
        """True while it runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill its main process alone, as a crash does; its children are its own business."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_S)

    def kill_all(self) -> None:
        """Kill it with all its children, as a lack of memory may."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(END_S)

    def freeze(self) -> None:
        """Stop its main process in its tracks."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Ask it to end; kill the whole group when it does not."""
        if self._process is None:
            return
        self.thaw()
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + END_S
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
