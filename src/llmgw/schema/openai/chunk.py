"""Chunks of a streamed answer, as they are put together to a plain one."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from llmgw.schema.value import Value


class ChunkChoice(Value, frozen=True, kw_only=True):
    """One choice's part in a chunk: `delta` for chats, `text` for completions."""

    index: int = 0
    delta: dict[str, Any] | None = None
    text: str | None = None
    logprobs: Any | UnsetType = UNSET
    finish_reason: str | None = None


class Chunk(Value, frozen=True, kw_only=True):
    """One event of a stream. Members that are not taken apart stay raw and go out as they came."""

    choices: tuple[ChunkChoice, ...] | None = None
    created: msgspec.Raw | UnsetType = UNSET
    id: msgspec.Raw | UnsetType = UNSET
    model: msgspec.Raw | UnsetType = UNSET
    system_fingerprint: msgspec.Raw | UnsetType = UNSET
    usage: msgspec.Raw | UnsetType = UNSET
    timings: msgspec.Raw | UnsetType = UNSET
    error: msgspec.Raw | UnsetType = UNSET
