"""`POST /v1/chat/completions`."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from llmgw.core.guard.openai_turns import chat_conversation
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.ask import Ask, read_prompt
from llmgw.gateway.body import generation_body, wants_usage, without
from llmgw.gateway.decode import decoded
from llmgw.schema.model import Role
from llmgw.schema.openai.moderation import ModerationWish
from llmgw.schema.openai.request import ChatRequest

PATH = "/v1/chat/completions"
LABEL = "chat"
ROLES = frozenset({Role.CHAT, Role.GUARD})

_DECODE = msgspec.json.Decoder(ChatRequest).decode


def read(raw: bytes) -> Ask:
    """Read a request. Raises `ApiError` 400."""
    request = decoded(raw, _DECODE)
    moderation = request.moderation
    if moderation is not UNSET:
        raw = without(raw, "moderation")
    return Ask(
        model=request.model,
        path=PATH,
        body=lambda kind, context: generation_body(raw, request, kind=kind, context=context),
        prompt=read_prompt(request.tools, request.messages, salt=request.cache_salt),
        streams=request.stream is True,
        wants_usage=wants_usage(request),
        chat=True,
        moderation=moderation if isinstance(moderation, ModerationWish) else None,
    )


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Give all texts of a decoded body that reach the model."""
    return chat_conversation(body)
