"""Tokens of one request, as its engine counted them."""

import msgspec

from llmgw.schema.openai.usage import Usage, WithUsage

_DECODE = msgspec.json.Decoder(WithUsage).decode


class UsageMeter:
    """Adds up what an answer says of its usage.

    `per_choice`: the engine tells each choice's tokens in a frame of its own (llama.cpp); else a later frame replaces
    an earlier one, as engines that tell the usage so far in every chunk mean it.
    """

    __slots__ = ("_per_choice", "cached", "cached_known", "completion", "known", "prompt")

    def __init__(self) -> None:
        self._per_choice = False
        self.known = False
        self.cached_known = False
        """The engine says which tokens of the prompt were in its cache."""
        self.prompt = 0
        self.cached = 0
        self.completion = 0

    def begin(self, *, per_choice: bool) -> None:
        """Start over, for an answer of a replica of this kind."""
        self._per_choice = per_choice
        self.known = self.cached_known = False
        self.prompt = self.cached = self.completion = 0

    def read(self, answer: bytes) -> None:
        """Take in an answer or a chunk; one that is not what it should be tells nothing."""
        try:
            usage = _DECODE(answer).usage
        except msgspec.DecodeError:
            return
        if usage is not None:
            self._add(usage)

    def _add(self, usage: Usage) -> None:
        details = usage.prompt_tokens_details
        told = details.cached_tokens if details else None
        cached = told or 0
        self.cached_known = self.cached_known or told is not None
        self.prompt = max(self.prompt, usage.prompt_tokens) if self._per_choice else usage.prompt_tokens
        self.cached = max(self.cached, cached) if self._per_choice else cached
        self.completion = usage.completion_tokens + (self.completion if self._per_choice else 0)
        self.known = True
