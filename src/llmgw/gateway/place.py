"""A request's place at a replica: what it adds there, from selection to the end of its answer."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from llmgw.core.prefix import BLOCK_BYTES
from llmgw.core.routing import RATE, Prompt
from llmgw.gateway.routes_view import Target
from llmgw.gateway.usage import UsageMeter

TELLING_BLOCKS = 4
"""A prompt of fewer blocks tells nothing of an engine's speed or cache."""


class Place:
    """Counts from the moment the replica is chosen; `leave` gives a permit back, where there is one.

    The only holder of a permit, and its context manager the only one who gives it back, on every path: answered,
    failed, retried, cancelled, or cancelled in the very moment it was granted.
    """

    __slots__ = ("_ahead", "_at", "_layers", "_leave", "_open", "_own", "believed", "news", "prompt", "target")

    def __init__(self, target: Target, prompt: Prompt, leave: "Callable[[Place], None]") -> None:
        self._layers = target.cache.layers(prompt.chain)
        depth = self._layers[-1][0] if self._layers else 0
        self.news = target.cache.add(prompt.chain)
        """The replica was not given this very prompt a moment ago."""
        self.target = target
        self.prompt = prompt
        self._leave = leave
        self._own = prompt.size - depth * BLOCK_BYTES
        self._open = True
        """The engine has not computed the prompt yet."""
        self._at = time.monotonic()
        target.breaker.tried(self._at)
        target.load += 1
        target.queued += self._own
        self._ahead = target.queued
        self.believed: float | None = depth * BLOCK_BYTES / prompt.size if prompt.chain else None
        """The share of the prompt that should be in the replica's cache; `None` for one too short to tell."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.computed()
        self.target.load -= 1
        self._leave(self)

    @property
    def own(self) -> int:
        """Bytes of the prompt that the replica has to compute."""
        return self._own

    def expected_s(self) -> float:
        """Seconds after which the prompt should be computed."""
        return self._ahead / (self.target.rate or RATE)

    def computed(self) -> None:
        """Note that the engine has computed the prompt, or never will."""
        if self._open:
            self._open = False
            self.target.queued -= self._own

    def began(self) -> None:
        """Note the first token: it tells how fast the engine computes prompts."""
        if self._open and self._ahead >= TELLING_BLOCKS * BLOCK_BYTES:
            self.target.pace(self._ahead, time.monotonic() - self._at)
        self.computed()

    def told(self, meter: UsageMeter) -> None:
        """Take over what the engine says of its cache."""
        if self.believed is None or not meter.cached_known or not meter.prompt:
            return
        if len(self.prompt.chain) >= TELLING_BLOCKS:
            share = meter.cached / meter.prompt
            self.target.cache.told(self._layers, size=len(self.prompt.chain), cached=share)
