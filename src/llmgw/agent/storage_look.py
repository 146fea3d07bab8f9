"""What storage the weights lie on, each filesystem once, whether or not it answers."""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from llmgw.agent.question import Question
from llmgw.hardware import mounts
from llmgw.hardware.mounts import Mount, Sizes
from llmgw.schema.weights import Storage

T = TypeVar("T")

STATVFS_S = 3.0
"""A dead file server blocks statvfs for minutes; a live one answers in milliseconds."""
STEADY_SHARE = 0.01
"""Free space that moved by less of the total is not news."""


class StorageLook:
    """Looks at the storage below some folders. No filesystem holds up another, or the one who asks."""

    def __init__(self, folders: Sequence[str], news: Callable[[], None]) -> None:
        self._news = news
        self._paths = {
            folder: self._question(partial(os.path.realpath, folder), f"real path {folder}") for folder in folders
        }
        self._mounts: Question[tuple[Mount, ...]] = self._question(mounts.read_mounts, "mounts")
        self._sizes: dict[str, Question[Sizes]] = {}

    async def look(self, before: Sequence[Storage]) -> tuple[Storage, ...]:
        """Give each filesystem once, by mount point. Free space about as `before` is given as it was."""
        try:
            table = await self._mounts.answer()
        except (OSError, TimeoutError):
            return tuple(before)
        paths = await asyncio.gather(*(self._real(folder) for folder in self._paths))
        found: dict[str, Mount] = {}
        for path in paths:
            mount = mounts.covering(table, path)
            if mount is not None:
                found.setdefault(mount.device, mount)
        looked = await asyncio.gather(*(self._describe(mount) for mount in found.values()))
        known = {storage.mount: storage for storage in before}
        return tuple(_steady(known.get(one.mount), one) for one in sorted(looked, key=lambda one: one.mount))

    async def _real(self, folder: str) -> str:
        try:
            found: str = await self._paths[folder].answer()
            return found
        except (OSError, TimeoutError):
            return folder  # below a mount that hangs: what is written is the best there is

    async def _describe(self, mount: Mount) -> Storage:
        point = mount.point
        asking = self._sizes.get(point)
        if asking is None:
            asking = self._sizes[point] = self._question(partial(mounts.read_sizes, point), f"statvfs {point}")
        try:
            return mounts.describe(mount, await asking.answer())
        except TimeoutError:
            return mounts.describe(mount, None, problem=f"{point} does not answer")
        except OSError as error:
            return mounts.describe(mount, None, problem=f"{point} cannot be looked at: {error.strerror}")

    def _question(self, ask: Callable[[], T], name: str) -> Question[T]:
        return Question(ask, name=name, within_s=STATVFS_S, came_late=self._news)


def _real_path(folder: str) -> str:
    return os.path.realpath(folder)


def _steady(old: Storage | None, new: Storage) -> Storage:
    """Keep the last figure of free space while it is about the same, so that facts do not change all the time."""
    if old is None or old.free_bytes is None or new.free_bytes is None or new.total_bytes is None:
        return new
    if abs(new.free_bytes - old.free_bytes) >= STEADY_SHARE * new.total_bytes:
        return new
    return msgspec.structs.replace(new, free_bytes=old.free_bytes)
