"""Rendering: templates with everything escaped, and the few ways numbers and times are written."""

from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from llmgw.console.assets import Assets
from llmgw.ports import Clock

UNKNOWN = "–"
"""Unknown is never written as 0."""

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Pages:
    """Renders templates of this package."""

    def __init__(self, clock: Clock, *, version: str, files: Assets) -> None:
        self._clock = clock
        self._environment = Environment(
            loader=PackageLoader("llmgw.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals["version"] = version
        self._environment.globals["asset"] = lambda name: files[name].url
        self._environment.filters.update(ago=self.ago, size=size, number=number, instant=instant)

    def page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template with `values`. What it shows is the fleet's: nobody may keep it."""
        text = self._environment.get_template(template).render(**values)
        return HTMLResponse(text, status, {"cache-control": "no-store"})

    def ago(self, moment: datetime | None) -> str:
        """Say how long ago a moment was."""
        if moment is None:
            return UNKNOWN
        seconds = max(0, int((self._clock.now() - moment).total_seconds()))
        for length, unit in _STEPS:
            if seconds >= length:
                return f"{seconds // length} {unit}"
        return f"{seconds} s"


def size(count: float | None, unknown: str = UNKNOWN) -> str:
    """Write a number of bytes as people read it."""
    if count is None:
        return unknown
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:  # noqa: PLR2004 - binary units step by 1024
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def number(value: float | None, unknown: str = UNKNOWN) -> str:
    """Write a number shortly: 4, 3.5."""
    return unknown if value is None else f"{value:.1f}".removesuffix(".0")


def instant(moment: datetime | None) -> str:
    """Write a moment in full, for titles and machines."""
    return UNKNOWN if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
