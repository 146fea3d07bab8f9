"""`POST /v1/completions`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from llmgw.core.guard.openai_turns import completion_conversation
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.ask import Ask, read_prompt
from llmgw.gateway.body import generation_body, wants_usage
from llmgw.gateway.decode import decoded
from llmgw.schema.model import Role
from llmgw.schema.openai.request import CompletionRequest

PATH = "/v1/completions"
LABEL = "completions"
ROLES = frozenset({Role.CHAT, Role.GUARD})

_DECODE = msgspec.json.Decoder(CompletionRequest).decode


def read(raw: bytes) -> Ask:
    """Read a request. Raises `ApiError` 400."""
    request = decoded(raw, _DECODE)
    return Ask(
        model=request.model,
        path=PATH,
        body=lambda kind, context: generation_body(raw, request, kind=kind, context=context),
        prompt=read_prompt(request.prompt, salt=request.cache_salt),
        streams=request.stream is True,
        wants_usage=wants_usage(request),
        chat=False,
    )


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Give all texts of a decoded body that reach the model."""
    return completion_conversation(body)
