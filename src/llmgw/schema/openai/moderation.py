"""Requests to `/v1/moderations`, and moderation of a chat."""

from enum import StrEnum
from typing import Any

from llmgw.schema.guard.rule import Stage
from llmgw.schema.value import Value


class ModerationRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/moderations`. Left out, `model` is the first judge that policies ask."""

    input: str | list[Any]
    model: str | None = None


class ModerationMode(StrEnum):
    """What a client wants of an unsafe verdict."""

    SCORE = "score"
    """To know."""
    BLOCK = "block"
    """To get no answer."""


class ModerationSide(Value, frozen=True, kw_only=True):
    """The request, or the answer."""

    mode: ModerationMode


class ModerationModes(Value, frozen=True, kw_only=True):
    """Left out, a side is scored."""

    input: ModerationSide | None = None
    output: ModerationSide | None = None


class ModerationWish(Value, frozen=True, kw_only=True):
    """`moderation` of a chat."""

    model: str
    policy: ModerationModes | None = None

    def modes(self) -> dict[Stage, ModerationMode]:
        """Give what is wanted of each side."""
        policy = self.policy or ModerationModes()
        sides = {Stage.INPUT: policy.input, Stage.OUTPUT: policy.output}
        return {stage: side.mode if side is not None else ModerationMode.SCORE for stage, side in sides.items()}
