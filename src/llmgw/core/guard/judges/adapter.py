"""What all judges' adapters have in common: a view becomes a prompt, an answer becomes a reading."""

from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from llmgw.core.guard.judges.answer import JudgeAnswer
from llmgw.core.guard.outlook import View
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.judge import JudgeFamily

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TOP_CHANCES = 10
"""Likeliest tokens asked for: both words of a verdict are among them, or one of them is as good as impossible."""
_LARGEST_ROOM = 12_000
"""Characters shown at once: 3,000 to 4,000 tokens. Nobody has published how well judges read more."""
_LEAST_ROOM = 1_000
_CHARACTERS_PER_TOKEN = 2
"""Fewer than English has (4), as other languages do: a prompt that does not fit is no verdict."""


class Label(StrEnum):
    """What a judge says."""

    SAFE = "safe"
    CONTROVERSIAL = "controversial"
    UNSAFE = "unsafe"


class Reading(NamedTuple):
    """What a judge said, before a rule's threshold and exclusions."""

    label: Label
    codes: tuple[str, ...] = ()
    """The judge's own, as it wrote them."""
    categories: tuple[Category, ...] = ()
    """The same as policies name them; codes that are not known have none."""
    chances: dict[Label, float] | None = None
    """Probabilities that add up to 1; `None`: the engine gave none."""


class Unclear(NamedTuple):
    """An answer that is no verdict, and why, in words that never quote it."""

    detail: str


class JudgePrompt(NamedTuple):
    """What to send. `body` lacks the model's name only."""

    path: str
    body: dict[str, Any]


class JudgeAdapter(Protocol):
    """One family of judges."""

    family: JudgeFamily
    frame_tokens: int
    """Tokens of a prompt beside the conversation, and of the answer."""

    def prompt(self, view: View) -> JudgePrompt:
        """Ask about the last turn of a view. Nothing in its texts can end or extend the frame around them."""

    def read(self, answer: JudgeAnswer) -> Reading | Unclear:
        """Read an answer. Raises nothing, whatever it is."""


def room(adapter: JudgeAdapter, context: int | None) -> int:
    """Give the characters of a conversation that a judge with `context` tokens (`None`: not known) is shown at once."""
    if context is None:
        return _LARGEST_ROOM
    fits = (context - adapter.frame_tokens) * _CHARACTERS_PER_TOKEN
    return max(_LEAST_ROOM, min(_LARGEST_ROOM, fits))


def completion(prompt: str, *, max_tokens: int) -> JudgePrompt:
    """Make a prompt for the raw route, where no template of an engine comes between."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": TOP_CHANCES, "stream": False}
    return JudgePrompt(COMPLETIONS, body)


def chat(system: str, user: str, *, max_tokens: int) -> JudgePrompt:
    """Make a prompt for judges that are ordinary chat models: only their engine knows their template."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = {
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": TOP_CHANCES,
        "stream": False,
    }
    return JudgePrompt(CHAT, body)
