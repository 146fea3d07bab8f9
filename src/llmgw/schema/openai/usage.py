"""Usage: tokens as an engine counted them."""

from llmgw.schema.value import Value


class PromptTokensDetails(Value, frozen=True, kw_only=True):
    """How much of the prompt came from the engine's prefix cache."""

    cached_tokens: int | None = None


class Usage(Value, frozen=True, kw_only=True):
    """`usage` of an answer or of the last chunk of a stream."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: PromptTokensDetails | None = None


class WithUsage(Value, frozen=True, kw_only=True):
    """Any answer or chunk that may carry usage; everything else in it is skipped."""

    usage: Usage | None = None
