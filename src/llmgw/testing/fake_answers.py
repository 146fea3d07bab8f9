"""What the fake engine says: it counts, " 1 2 3 …", in the shapes of the OpenAI API as llama.cpp fills them."""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

DIMENSIONS = 8
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Answer:
    """One answer to a chat or a completion request."""

    body: dict[str, Any]
    chat: bool
    model: str
    tokens: int
    """How far the engine counts when nobody limits it."""

    @property
    def count(self) -> int:
        """Tokens of each choice."""
        return min(self.tokens, int(self.body.get("max_tokens") or self.tokens))

    @property
    def wants_usage(self) -> bool:
        """True when the client asked for usage at the end of the stream."""
        return bool((self.body.get("stream_options") or {}).get("include_usage"))

    @property
    def usage(self) -> dict[str, Any]:
        """Count one token a byte of prompt. As in llama.cpp, one choice only."""
        prompt = len(prompt_of(self.body))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.count,
            "total_tokens": prompt + self.count,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def whole(self, *, usage: bool = True) -> dict[str, Any]:
        """Give the plain answer."""
        text = "".join(f" {number}" for number in range(1, self.count + 1))
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choices = [
            {"index": index, "finish_reason": self._finish, "logprobs": None, **content}
            for index in range(self._choices)
        ]
        extra = {"usage": self.usage} if usage else {}
        return {**self._frame("chat.completion"), "choices": choices, **extra}

    def events(self, *, usage: bool = True) -> list[dict[str, Any]]:
        """Give the chunks of the streamed answer, `[DONE]` left out."""
        indexes = range(self._choices)
        chunks = [self._chunk(index, {"role": "assistant", "content": None}) for index in indexes] if self.chat else []
        chunks += [
            self._chunk(index, {"content": f" {number}"}) for number in range(1, self.count + 1) for index in indexes
        ]
        chunks += [self._chunk(index, {}, finish=self._finish) for index in indexes]
        if usage and self.wants_usage:
            chunks.append({**self._frame("chat.completion.chunk"), "choices": [], "usage": self.usage})
        return chunks

    @property
    def _finish(self) -> str:
        return "stop" if self.count == self.tokens else "length"

    @property
    def _choices(self) -> int:
        return int(self.body.get("n") or 1)

    def _frame(self, kind: str) -> dict[str, Any]:
        kind = kind if self.chat else "text_completion"
        return {"id": "fake-1", "object": kind, "created": 1_700_000_000, "model": self.model}

    def _chunk(self, index: int, delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
        content = {"delta": delta} if self.chat else {"text": delta.get("content") or ""}
        choice = {"index": index, "finish_reason": finish, "logprobs": None, **content}
        return {**self._frame("chat.completion.chunk"), "choices": [choice]}


def embeddings(body: dict[str, Any], model: str) -> dict[str, Any]:
    """Give a vector of eight numbers for each input: equal for equal texts."""
    inputs = body.get("input", "")
    texts = inputs if isinstance(inputs, list) else [inputs]
    compact = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _vector(str(text), compact=compact)}
        for index, text in enumerate(texts)
    ]
    tokens = sum(len(str(text)) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}


def reranked(body: dict[str, Any], model: str) -> dict[str, Any]:
    """Put documents first that share most words with the query."""
    query = set(str(body.get("query", "")).split())
    texts = [one["text"] if isinstance(one, dict) else str(one) for one in body.get("documents", [])]
    scored = [(len(query & set(text.split())) / max(len(query), 1), index) for index, text in enumerate(texts)]
    results = [{"index": index, "relevance_score": score} for score, index in sorted(scored, reverse=True)]
    tokens = sum(len(text.split()) for text in texts)
    return {"object": "list", "model": model, "results": results, "usage": {"prompt_tokens": tokens}}


WHOLE = {"/v1/embeddings": embeddings, "/v1/rerank": reranked}
"""Answers that are never streamed."""
COUNTS = {"/v1/chat/completions/input_tokens": "input_tokens", "/tokenize": "count"}
"""Where llama.cpp and vLLM count the tokens of a prompt, and what they call their number."""


def counted(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Count a prompt as `usage` does."""
    return {COUNTS[path]: len(prompt_of(body))}


def models(model: str) -> dict[str, Any]:
    """Give the list of one model."""
    return {"object": "list", "data": [{"id": model, "object": "model", "created": 0, "owned_by": "fake"}]}


def error(status: int, message: str, kind: str) -> bytes:
    """Give an error as llama.cpp shapes it."""
    return dump({"error": {"code": status, "message": message, "type": kind}})


def event(chunk: object) -> bytes:
    """Frame one chunk as a server-sent event."""
    return b"data: " + dump(chunk) + b"\n\n"


def dump(value: object) -> bytes:
    """Encode as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def prompt_of(body: dict[str, Any]) -> str:
    """Give the prompt's text, roughly: its length is what counts."""
    if "messages" in body:
        return "".join(str(message.get("content") or "") for message in body["messages"])
    return str(body.get("prompt", ""))


def _vector(text: str, *, compact: bool) -> list[float] | str:
    digest = hashlib.sha256(text.encode()).digest()
    numbers = [(digest[index] - 127.5) / 127.5 for index in range(DIMENSIONS)]
    if compact:
        return base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *numbers)).decode()
    return numbers
