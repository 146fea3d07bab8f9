"""Requests to `/v1/moderations`."""

from typing import Any

from llmgw.schema.value import Value


class ModerationRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/moderations`. Left out, `model` is the first judge that policies ask."""

    input: str | list[Any]
    model: str | None = None
