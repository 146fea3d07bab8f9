"""How much something hurts."""

from enum import StrEnum


class Harm(StrEnum):
    """Worst first."""

    BROKEN = "broken"
    """Something does not work now."""
    SOON = "soon"
    """It works, and will not for long."""
    NEXT = "next"
    """Nothing is wrong; this is the next step."""
