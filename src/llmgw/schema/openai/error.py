"""Errors in OpenAI's shape."""

from llmgw.schema.value import Value


class ErrorObject(Value, frozen=True, kw_only=True):
    """The inside of `{"error": …}`. All four members are always there; unknown ones are null, never the text "None"."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(Value, frozen=True, kw_only=True):
    """The body of every error."""

    error: ErrorObject
