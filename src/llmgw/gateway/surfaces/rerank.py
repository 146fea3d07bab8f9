"""`POST /v1/rerank`: documents in the order of what they say about a query. Engines have it; nothing is changed."""

from collections.abc import Mapping
from typing import Any

import msgspec

from llmgw.core.guard.openai_turns import completion_conversation
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.ask import Ask, read_prompt
from llmgw.gateway.decode import decoded
from llmgw.schema.model import Role
from llmgw.schema.openai.request import RerankRequest

PATH = "/v1/rerank"
LABEL = "rerank"
ROLES = frozenset({Role.RERANK})

_DECODE = msgspec.json.Decoder(RerankRequest).decode


def read(raw: bytes) -> Ask:
    """Read a request. Raises `ApiError` 400."""
    request = decoded(raw, _DECODE)
    prompt = read_prompt(request.query, request.documents)
    return Ask(model=request.model, path=PATH, body=lambda _kind, _context: raw, prompt=prompt)


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Give all texts of a decoded body that reach the model."""
    documents = body.get("documents")
    texts = [_text(one) for one in documents] if isinstance(documents, list) else [documents]
    return completion_conversation({"prompt": [body.get("query"), *texts]})


def _text(document: Any) -> Any:
    """Give a document's text; as it is where it is of no known form, for then nobody can read it."""
    if isinstance(document, dict) and document.keys() == {"text"}:
        return document["text"]
    return document
