"""Requests of clients: only what the gateway reads; all else stays raw and passes on.

`UNSET` tells a field that was left out from one that was sent as `null`: a body may be extended in place only where
the field was left out.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from llmgw.schema.openai.moderation import ModerationWish
from llmgw.schema.value import Value

TokenLimit = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Engines read it into 32 bits."""
Choices = Annotated[int, msgspec.Meta(ge=1, le=128)]
"""OpenAI's own bounds of `n`."""
Window = Annotated[int, msgspec.Meta(ge=-1, le=2**20)]
"""How far back a sampler looks. llama.cpp reserves memory for as much as is asked, without a bound of its own."""


class StreamOptions(Value, frozen=True, kw_only=True):
    """`stream_options`."""

    include_usage: bool | None = None


class ChatRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`. The messages stay raw: decoding them costs more than all the rest."""

    model: str
    stream: bool | UnsetType | None = UNSET
    stream_options: StreamOptions | UnsetType | None = UNSET
    max_tokens: TokenLimit | UnsetType | None = UNSET
    max_completion_tokens: TokenLimit | UnsetType | None = UNSET
    n: Choices | UnsetType | None = UNSET
    repeat_last_n: Window | UnsetType | None = UNSET
    dry_penalty_last_n: Window | UnsetType | None = UNSET
    messages: msgspec.Raw | UnsetType = UNSET
    moderation: ModerationWish | UnsetType | None = UNSET
    """For us: engines do not know it."""
    tools: msgspec.Raw | UnsetType = UNSET
    """Templates write them before the messages."""
    cache_salt: msgspec.Raw | UnsetType = UNSET
    """Keeps the cache of who sends it apart (vLLM)."""


class CompletionRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/completions`."""

    model: str
    stream: bool | UnsetType | None = UNSET
    stream_options: StreamOptions | UnsetType | None = UNSET
    max_tokens: TokenLimit | UnsetType | None = UNSET
    n: Choices | UnsetType | None = UNSET
    repeat_last_n: Window | UnsetType | None = UNSET
    dry_penalty_last_n: Window | UnsetType | None = UNSET
    prompt: msgspec.Raw | UnsetType = UNSET
    cache_salt: msgspec.Raw | UnsetType = UNSET


class EmbeddingRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/embeddings`."""

    model: str
    input: msgspec.Raw | UnsetType = UNSET


class RerankRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/rerank`."""

    model: str
    query: msgspec.Raw | UnsetType = UNSET
    documents: msgspec.Raw | UnsetType = UNSET
