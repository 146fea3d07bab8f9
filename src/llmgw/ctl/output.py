"""How answers look: tables for people, JSON and YAML for programs, short words for times and sizes."""

import json
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

_GIB = 1024**3
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def dump(answer: Any, style: str) -> str:
    """Give an answer as JSON or YAML."""
    if style == "json":
        return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    import yaml

    text: str = yaml.safe_dump(answer, sort_keys=False, allow_unicode=True)
    return text


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> str:
    """Give aligned columns without borders; `empty` is said when there are no rows. Unknown shows as `-`.

    The last column may be cut at the terminal's width; nothing is cut when the output goes elsewhere.
    """
    if not rows:
        return empty
    cells = [list(columns), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    if not sys.stdout.isatty():
        return "\n".join(lines)
    limit = shutil.get_terminal_size().columns
    lines = [line if len(line) <= limit else line[: limit - 1] + "…" for line in lines]
    return "\n".join([click.style(lines[0], bold=True), *lines[1:]])


def fields(pairs: Sequence[tuple[str, object]]) -> str:
    """Give one `name  value` line each; pairs without a value are left out."""
    known = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in known), default=0)
    return "\n".join(f"{name:<{width}}  {shown(value)}" for name, value in known)


def shown(cell: object) -> str:
    """Give a cell as text; unknown is `-`, never 0."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, float):
        return f"{cell:g}"
    if isinstance(cell, list | tuple | set | frozenset):
        return ", ".join(str(item) for item in cell) or "-"
    return str(cell)


def size(count: int | None) -> str | None:
    """Bytes as GiB or MiB."""
    if count is None:
        return None
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / 1024**2:.0f} MiB"


def percent(share: float | None) -> str | None:
    """A share in whole percent; one that is not nothing never shows as 0."""
    if share is None:
        return None
    return "<1 %" if share > 0 and round(share) == 0 else f"{share:.0f} %"


def age(at: datetime | None) -> str | None:
    """How long ago, in the largest unit that says something."""
    if at is None:
        return None
    seconds = max(0, int((datetime.now(UTC) - at).total_seconds()))
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return "0 s"


def ago(at: datetime | None) -> str | None:
    """The same as a moment in the past."""
    text = age(at)
    return None if text is None else f"{text} ago"
