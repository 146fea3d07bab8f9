"""Bounds of numbers in configuration files. A value outside is refused with the bound."""

from typing import Annotated

from msgspec import Meta

_YEAR_S = 366 * 86_400.0

Seconds = Annotated[float, Meta(gt=0, le=_YEAR_S)]
Pause = Annotated[float, Meta(ge=0, le=_YEAR_S)]
"""Seconds that may be none."""
Silence = Annotated[float, Meta(ge=3, le=_YEAR_S)]
"""Seconds of silence that mean something: less would be a pause between two signs of life."""
Grace = Annotated[float, Meta(ge=10, le=_YEAR_S)]
"""Seconds in which others find a new leader."""
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Most = Annotated[int, Meta(ge=0, le=1_000_000)]
"""How many there may be at most; 0 is none."""
Workers = Annotated[int, Meta(ge=1, le=64)]
Bytes = Annotated[int, Meta(ge=1024, le=2**40)]
Verbosity = Annotated[int, Meta(ge=0, le=5)]
