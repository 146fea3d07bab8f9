"""How an answer ended and what it took: finish reasons and usage, in Anthropic's words."""

from typing import Any, NamedTuple

from llmgw.schema.openai.chat_answer import DeltaChoice, MessageChoice, Timings
from llmgw.schema.openai.usage import Usage

_REASONS = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


class Stop(NamedTuple):
    """Why an answer ended, and at which of the request's stop sequences."""

    reason: str
    sequence: str | None


def stop_of(choice: DeltaChoice | MessageChoice, *, called: bool) -> Stop:
    """Read a choice that has a finish reason. `called`: the answer holds calls of tools."""
    reason = _REASONS.get(choice.finish_reason or "", "end_turn")
    if reason != "end_turn":
        return Stop(reason, None)
    if called:  # a tool that had to be called ends as `stop` with some engines; clients must still run it
        return Stop("tool_use", None)
    matched = choice.stop_reason if choice.stop_reason is not None else choice.matched_stop
    return Stop("stop_sequence", matched) if isinstance(matched, str) else Stop(reason, None)


class Tokens(NamedTuple):
    """What an engine counted, as far as it told."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None


def tokens_of(usage: Usage | None, timings: Timings | None = None) -> Tokens | None:
    """Give what a chunk or an answer tells of tokens; `None` where it tells nothing."""
    if usage is not None:
        details = usage.prompt_tokens_details
        return Tokens(usage.prompt_tokens, details.cached_tokens if details else None, usage.completion_tokens)
    if timings is not None and timings.prompt_n is not None:
        return Tokens(timings.prompt_n + (timings.cache_n or 0), timings.cache_n, timings.predicted_n)
    return None


def usage_body(tokens: Tokens) -> dict[str, Any]:
    """Give `usage`. The three numbers of the input add up to the prompt; engines keep no books of what they cache."""
    prompt, cached, completion = tokens
    return {
        "input_tokens": prompt if prompt is None else max(prompt - (cached or 0), 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    }
