"""Certificates renewed on disk, taken into use by a process that runs."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from llmgw.schema.errors import InvalidInput
from llmgw.telemetry import log

LOOK_S = 5.0
"""Seconds between two looks. A certificate is renewed days before it ends; people who replace one by hand look on."""

_log = log.get(__name__)


class Certificates(Protocol):
    """Certificates that lie on disk."""

    def reload(self) -> bool:
        """Take into use what is on disk; False when that is so already. Raises `InvalidInput` or `OSError`."""


async def follow_renewals(sources: Sequence[Certificates], *, look_s: float = LOOK_S) -> None:
    """Look until cancelled. What cannot be read changes nothing, and is told once."""
    told: set[int] = set()
    while sources:
        await asyncio.sleep(look_s)
        for number, one in enumerate(sources):
            try:
                if one.reload():
                    _log.info("tls.renewed")
            except (InvalidInput, OSError) as error:
                if number not in told:
                    _log.error("tls.unreadable", error=str(error), note="serving on with the certificate from before")
                told.add(number)
            else:
                told.discard(number)
