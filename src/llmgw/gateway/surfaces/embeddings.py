"""`POST /v1/embeddings`. Never streamed, by any engine: request and answer stay as they are."""

from collections.abc import Mapping
from typing import Any

import msgspec

from llmgw.core.guard.openai_turns import completion_conversation
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.ask import Ask, read_prompt
from llmgw.gateway.decode import decoded
from llmgw.schema.model import Role
from llmgw.schema.openai.request import EmbeddingRequest

PATH = "/v1/embeddings"
LABEL = "embeddings"
ROLES = frozenset({Role.EMBED})

_DECODE = msgspec.json.Decoder(EmbeddingRequest).decode


def read(raw: bytes) -> Ask:
    """Read a request. Raises `ApiError` 400."""
    request = decoded(raw, _DECODE)
    return Ask(model=request.model, path=PATH, body=lambda _kind, _context: raw, prompt=read_prompt(request.input))


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Give all texts of a decoded body that reach the model."""
    return completion_conversation({"prompt": body.get("input")})
