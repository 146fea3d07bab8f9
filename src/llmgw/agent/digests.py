"""Digests of the node's weights, made in the background: one file at a time, slowly, and never twice."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from llmgw.agent import off_loop
from llmgw.schema.value import Value
from llmgw.schema.weights import Weights
from llmgw.telemetry import log
from llmgw.weights.digest import FileChanged, Stamp, combined, digest_of, stamp
from llmgw.weights.files import ModelFileError
from llmgw.weights.sources import files

NICE = 19
"""Whoever else wants a processor goes first."""
MOST_KEPT = 20_000
"""Files remembered, those that were there last first: a folder that is not mounted now may be tomorrow."""

_log = log.get(__name__)


class FileDigest(Value, frozen=True, kw_only=True):
    """A file's digest, and the stamp it had then: another stamp, another content."""

    stamp: Stamp
    sha256: str


class DigestBook(Protocol):
    """Where digests are kept over restarts."""

    def digests(self) -> dict[str, FileDigest]:
        """Read them, by path."""

    def save_digests(self, digests: dict[str, FileDigest]) -> None:
        """Write them."""


class Digests:
    """Knows digests, and makes those that are wanted while it runs."""

    def __init__(self, book: DigestBook | None, *, mib_per_s: float, made: Callable[[], None]) -> None:
        self._book = book
        self._mib_per_s = mib_per_s
        self._known = book.digests() if book is not None else {}
        self._wanted: tuple[Weights, ...] = ()
        self._is_asked = asyncio.Event()
        self._is_running = True
        self._made = made

    def of(self, weights: Weights) -> str | None:
        """Give the digest of weights as they are now, if it is known. Blocks on the file system."""
        if weights.problem is not None or not self._known:
            return None
        try:
            found = [(Path(path).name, self._of_file(path)) for path in files(weights)]
        except (OSError, ModelFileError):
            return None
        whole = [(name, digest) for name, digest in found if digest is not None]
        return combined(whole) if found and len(whole) == len(found) else None

    def want(self, weights: Sequence[Weights]) -> None:
        """Make the digests of these that have none; of others no more."""
        self._wanted = tuple(one for one in weights if one.digest is None and one.problem is None)
        if self._wanted:
            self._is_asked.set()

    async def run(self) -> None:
        """Make digests until cancelled."""
        if not self._mib_per_s:
            return
        try:
            while True:
                await self._is_asked.wait()
                self._is_asked.clear()
                for weights in self._wanted:
                    await self._make(weights)
        finally:
            self._is_running = False

    async def _make(self, weights: Weights) -> None:
        """Make what is missing of one model; it may hang with its file system, and then nothing else is made."""
        made = await off_loop.call(partial(self._missing, weights), name=f"digest {weights.path}")
        for path in made:
            found = await off_loop.call(partial(self._read, path), name=f"digest {path}")
            if found is None:
                return
            self._known = _newest({**self._known, path: found})
            self._save()
        if made:
            _log.info("weights.digest", path=weights.path, files=len(made))
            self._made()

    def _save(self) -> None:
        if self._book is None:
            return
        try:
            self._book.save_digests(self._known)
        except OSError as error:  # a full disk: they are made again after the next restart
            _log.warning("weights.digests_unsaved", error=str(error))

    def _missing(self, weights: Weights) -> tuple[str, ...]:
        try:
            return tuple(path for path in files(weights) if self._of_file(path) is None)
        except (OSError, ModelFileError):
            return ()

    def _of_file(self, path: str) -> str | None:
        known = self._known.get(path)
        return known.sha256 if known is not None and known.stamp == stamp(path) else None

    def _read(self, path: str) -> FileDigest | None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # of this thread alone
            found, made = digest_of(path, mib_per_s=self._mib_per_s, is_wanted=lambda: self._is_running)
        except (OSError, FileChanged) as error:
            _log.debug("weights.no_digest", path=path, error=str(error))
            return None
        return FileDigest(stamp=found, sha256=made)


def _newest(known: dict[str, FileDigest]) -> dict[str, FileDigest]:
    surplus = len(known) - MOST_KEPT
    return known if surplus <= 0 else dict(list(known.items())[surplus:])
