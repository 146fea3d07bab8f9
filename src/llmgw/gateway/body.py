"""What an engine is asked: the client's bytes, with the few fields set that the gateway needs."""

from typing import Any

import msgspec
from msgspec import UNSET

from llmgw.schema.engine import EngineKind
from llmgw.schema.openai.request import ChatRequest, CompletionRequest, StreamOptions

_BLANKS = b" \t\r\n"
_FIELDS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODE = msgspec.json.Encoder().encode


def generation_body(raw: bytes, request: ChatRequest | CompletionRequest, *, kind: str, context: int | None) -> bytes:
    """Give the body for a replica of `kind` with `context` tokens per slot.

    llama.cpp is always asked for a stream, and gets a limit where the client named none (its own default is to run to
    the end of the context). Every stream is asked for its usage. A plain request to any other engine stays as it came.
    """
    ours = kind == EngineKind.LLAMACPP
    fields: dict[str, Any] = {}
    if ours and request.stream is not True:
        fields["stream"] = True
    if (ours or request.stream is True) and not wants_usage(request):
        fields["stream_options"] = _with_usage(raw, request.stream_options)
    if ours and context is not None and not _names_limit(request):
        fields["max_tokens"] = context
    return with_fields(raw, request, fields)


def without(raw: bytes, field: str) -> bytes:
    """Leave out a top-level field of a JSON object."""
    return _ENCODE({name: value for name, value in _FIELDS.decode(raw).items() if name != field})


def wants_usage(request: ChatRequest | CompletionRequest) -> bool:
    """True when the client asked for usage in its stream."""
    return isinstance(request.stream_options, StreamOptions) and request.stream_options.include_usage is True


def with_fields(raw: bytes, request: msgspec.Struct, fields: dict[str, Any]) -> bytes:
    """Set top-level fields of a JSON object. Fields the client left out are added at its end, without decoding it."""
    if not fields:
        return raw
    if all(getattr(request, name) is UNSET for name in fields):
        return raw.rstrip(_BLANKS)[:-1] + b"," + _ENCODE(fields)[1:]
    members: dict[str, Any] = dict(_FIELDS.decode(raw))
    return _ENCODE(members | fields)


def _with_usage(raw: bytes, options: object) -> dict[str, Any]:
    if not isinstance(options, StreamOptions):
        return {"include_usage": True}
    members: dict[str, Any] = dict(_FIELDS.decode(_FIELDS.decode(raw)["stream_options"]))
    return {**members, "include_usage": True}


def _names_limit(request: ChatRequest | CompletionRequest) -> bool:
    if isinstance(request.max_tokens, int):
        return True
    return isinstance(request, ChatRequest) and isinstance(request.max_completion_tokens, int)
