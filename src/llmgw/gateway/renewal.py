"""Keeps this gateway's certificate from ending: a new one is asked for over the stream to a control plane."""

import asyncio
from collections.abc import Callable

from llmgw.link.certificate_request import new_request
from llmgw.link.identity import TlsIdentity
from llmgw.ports import Clock
from llmgw.schema.errors import InvalidInput
from llmgw.schema.link import RenewCertificate, Renewed
from llmgw.telemetry import log as logs

LOOK_S = 60.0

log = logs.get(__name__)


class Renewal:
    """Asks after two thirds of the certificate's life, and again at each look until there is an answer.

    The key is made anew each time and kept until its certificate comes. `send` drops what finds no stream.
    """

    def __init__(
        self, own: TlsIdentity, send: Callable[[RenewCertificate], None], clock: Clock, *, look_s: float = LOOK_S
    ) -> None:
        self._own = own
        self._send = send
        self._clock = clock
        self._look_s = look_s
        self._key: str | None = None
        self._told: str | None = None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._look_s)
            if self._clock.now() >= self._own.renew_at:
                self._key, request = await asyncio.to_thread(new_request, self._own.identity)
                self._send(RenewCertificate(request=request))

    def take(self, message: Renewed) -> None:
        """Put a new certificate in place. One for a key that is no longer ours is dropped."""
        key, self._key = self._key, None
        if message.certificate is None:
            self._tell(message.reason or "no reason was given")
        elif key is not None:
            try:
                self._own.save(key=key, certificate=message.certificate)
            except InvalidInput as error:
                self._tell(error.message)
            except OSError as error:
                self._tell(f"it cannot be saved: {error}")
            else:
                self._told = None
                log.info("certificate.renewed", ends=self._own.ends.isoformat())

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            log.warning("certificate.not_renewed", problem=problem, ends=self._own.ends.isoformat())
        self._told = problem
