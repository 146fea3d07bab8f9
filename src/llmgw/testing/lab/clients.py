"""Clients of the laboratory: they write, ask models and look who leads until told to stop; a history keeps it all."""

import http.client
import itertools
import json
import time
from collections.abc import Callable
from typing import Self

from llmgw.link.api import Api, NotTheApi, Unreachable
from llmgw.schema.errors import LlmgwError
from llmgw.testing.lab.control_planes import API_PORT
from llmgw.testing.lab.history import History, Lead, Outcome, obeyed_faults
from llmgw.testing.lab.laboratory import HOSTS, Laboratory
from llmgw.testing.lab.visitor import Loop

_PAUSE_S = 0.05


class Clients:
    """Use as a context. `gateways` are the hosts through which models are asked; the first one is asked for streams.

    Writes are API keys named `name-N`, made by the floating address.
    """

    def __init__(self, lab: Laboratory, name: str, *, gateways: tuple[str, ...] = HOSTS) -> None:
        self.history = History()
        self._lab = lab
        self._name = name
        self._numbers = itertools.count()
        self._api: Api = lab.direct_api()
        loop = lab.client.loop
        self.writing: Loop = loop(self._write)
        self._loops = [self.writing, loop(self._look)]
        for host in gateways:
            self._loops.append(loop(self._asking(host, stream=host == gateways[0])))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def acknowledged(self) -> int:
        """Writes that were acknowledged so far."""
        return self.history.count(Outcome.ACKNOWLEDGED)

    def stop(self) -> None:
        """End all clients."""
        for loop in self._loops:
            loop.stop()

    def faults(self) -> list[str]:
        """Stop, and say what was lost, and which node obeyed two; the store must answer."""
        self.stop()
        return [*self.history.faults(self.present()), *obeyed_faults(self._lab.obeyed())]

    def present(self) -> list[str]:
        """Name the writes that are there now."""
        names = [key["name"] for key in self._lab.api().get("/api/v1/keys")["keys"]]
        return [name for name in names if name.startswith(f"{self._name}-")]

    def figures(self) -> str:
        """Say in a line what happened."""
        history = self.history
        return (
            f"{self._name}: {history.count(Outcome.ACKNOWLEDGED)} writes acknowledged, "
            f"{history.count(Outcome.UNKNOWN)} unknown, longest pause {self.writing.gap_s:.1f} s; "
            f"{history.answers()} answers, {len(history.failures())} failed"
        )

    def _write(self) -> None:
        name = f"{self._name}-{next(self._numbers)}"
        try:
            self._api.post("/api/v1/keys", {"name": name})
        except (Unreachable, NotTheApi, OSError):
            self.history.wrote(name, Outcome.UNKNOWN)
            raise
        except LlmgwError as error:
            # The API says "nothing was changed" where it knows; a store that broke off within a commit leaves it open.
            known = error.message.startswith("nothing was changed")
            self.history.wrote(name, Outcome.REFUSED if known else Outcome.UNKNOWN)
            raise
        self.history.wrote(name, Outcome.ACKNOWLEDGED)

    def _look(self) -> None:
        for host in HOSTS:
            asked = time.monotonic()
            try:
                lead = _leads(f"{self._lab.network.addresses[host]}:{API_PORT}")
            except (OSError, http.client.HTTPException):
                continue
            if lead is not None:
                self.history.led(Lead(*lead, asked, time.monotonic()))
        time.sleep(_PAUSE_S)

    def _asking(self, host: str, *, stream: bool) -> "_Asking":
        return _Asking(self.history, host, self._lab.chat(host, stream=stream))


class _Asking:
    """Asks one gateway, and notes what comes."""

    def __init__(self, history: History, host: str, chat: Callable[[], str]) -> None:
        self._history = history
        self._host = host
        self._chat = chat

    def __call__(self) -> None:
        try:
            self._chat()
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            self._history.failed(self._host, str(error) or type(error).__name__)
            raise
        self._history.answered(self._host)


def _leads(address: str) -> tuple[str, int] | None:
    connection = http.client.HTTPConnection(address, timeout=1.0)
    try:
        connection.request("GET", "/leader")
        answer = connection.getresponse()
        told = json.loads(answer.read())
    finally:
        connection.close()
    return (told["leader"], told["epoch"]) if answer.status == http.client.OK else None
