"""What a surface makes of a request: all that is needed to put it to a replica, whichever is chosen."""

import zlib
from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from llmgw.core.prefix import chain_of, salt_of
from llmgw.core.routing import Prompt, prompt_of
from llmgw.gateway.errors import ApiError
from llmgw.gateway.guard.guarded import Guarded
from llmgw.gateway.routes_view import LiveRoute
from llmgw.schema.model import Role
from llmgw.schema.openai.moderation import ModerationWish


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request, read."""

    model: str
    path: str
    body: Callable[[str, int | None], bytes]
    """What to send to a replica of this kind with this context."""
    prompt: Prompt
    streams: bool = False
    """The client wants a stream."""
    wants_usage: bool = False
    """The client wants usage in its stream."""
    chat: bool | None = None
    """Which shape is assembled from a stream; `None` for what is never streamed."""
    moderation: ModerationWish | None = None
    """The client wants a judge's verdicts with its answer."""
    guard: Guarded | None = None
    """Set when guardrails apply."""


def read_prompt(*parts: Raw | UnsetType, salt: Raw | UnsetType = UNSET) -> Prompt:
    """Describe a prompt, of which all parts count from the first on, as the client wrote them.

    `salt`: the client's own word that keeps its cache apart from others'.
    """
    given = [memoryview(part) for part in parts if part is not UNSET]
    if not given:
        return Prompt()
    data = given[0] if len(given) == 1 else b"".join(given)
    chain = chain_of(data, salt=0 if salt is UNSET else salt_of(bytes(salt)))
    return prompt_of(data, chain, short=0 if chain else zlib.crc32(data))


def refuse_role(route: LiveRoute, roles: frozenset[Role], path: str) -> None:
    """Refuse a request to a model that is not for it. Raises `ApiError` 400 that says what the model is for."""
    if route.role in roles:
        return
    raise ApiError(
        400,
        f"the model {route.model!r} has the role {route.role.value!r} and does not answer {path};"
        f" ask it at {_HOME[route.role]}",
        code="wrong_role",
        param="model",
    )


_HOME = {
    Role.CHAT: "/v1/chat/completions",
    Role.GUARD: "/v1/chat/completions",
    Role.EMBED: "/v1/embeddings",
    Role.RERANK: "/v1/rerank",
}
