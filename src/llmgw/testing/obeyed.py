"""Whom fake nodes obeyed, and whom they refused: lines of JSON, for checks of histories."""

from pathlib import Path
from typing import Self

import msgspec

from llmgw.schema.desired import DesiredState
from llmgw.schema.value import Value


class Obeyed(Value, frozen=True, kw_only=True):
    """A node began to obey a leader, or refused one."""

    node: str
    epoch: int
    holder: str
    refused: str | None = None
    """Why, in words; `None` when it obeyed."""


class ObeyedFile:
    """Appends to a file, once for each change. Use as a context."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._last: dict[str, Obeyed] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def note(self, node: str, order: DesiredState, refused: str | None) -> None:
        """Take in an order and what became of it."""
        obeyed = Obeyed(node=node, epoch=order.epoch, holder=order.holder, refused=refused)
        if self._last.get(node) != obeyed:
            self._last[node] = obeyed
            self._file.write(msgspec.json.encode(obeyed) + b"\n")


def read_obeyed(path: Path) -> tuple[Obeyed, ...]:
    """Read what was noted, in order."""
    return tuple(msgspec.json.decode(line, type=Obeyed) for line in path.read_bytes().splitlines())
