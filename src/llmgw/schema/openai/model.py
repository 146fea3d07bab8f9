"""Models as clients see them."""

from llmgw.schema.value import Value


class ModelObject(Value, frozen=True, kw_only=True):
    """One model of `GET /v1/models`."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "llmgw"


class ModelList(Value, frozen=True, kw_only=True):
    """`GET /v1/models`."""

    object: str = "list"
    data: tuple[ModelObject, ...]
