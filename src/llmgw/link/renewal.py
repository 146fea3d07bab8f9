"""Keeps a machine's certificate from ending."""

import asyncio
from collections.abc import Callable, Sequence

from llmgw.link.identity import TlsIdentity
from llmgw.link.join import renew
from llmgw.ports import Clock
from llmgw.schema.errors import LlmgwError
from llmgw.telemetry import log

LOOK_S = 60.0

_log = log.get(__name__)


async def keep_certificate(
    own: TlsIdentity, addresses: Callable[[], Sequence[str]], clock: Clock, *, look_s: float = LOOK_S
) -> None:
    """Renew it after two thirds of its life, and take one that joining anew put on disk; until cancelled.

    `addresses` gives the control planes' agent addresses. What fails is tried again at the next look: a third of a
    certificate's life, days, is left for that.
    """
    told: str | None = None
    while True:
        await asyncio.sleep(look_s)
        try:
            own.reload()
            if clock.now() < own.renew_at:
                continue
            await renew(addresses(), own)
        except LlmgwError as error:
            if error.message != told:
                _log.warning("certificate.not_renewed", problem=error.message, ends=own.ends.isoformat())
            told = error.message
        except OSError as error:
            _log.error("certificate.not_saved", error=str(error), ends=own.ends.isoformat())
        else:
            told = None
            _log.info("certificate.renewed", ends=own.ends.isoformat())
