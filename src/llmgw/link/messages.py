"""Reading messages of releases that are not ours: those of neighbouring versions talk to each other."""

from typing import Generic, TypeVar, get_args

import msgspec

from llmgw.schema.link import Ping
from llmgw.schema.value import Value

M = TypeVar("M")


class _Typed(Value, frozen=True, kw_only=True):
    type: str


_typed = msgspec.json.Decoder(_Typed)


class Messages(Generic[M]):
    """Reads the messages of one direction of a link.

    Fields that are not known are passed over. A message of a type that is not known counts as a sign of life, as
    `Ping` is: a newer release sends it, and does without an answer from older ones.
    """

    def __init__(self, decoder: msgspec.json.Decoder[M]) -> None:
        """`decoder` is of a union of tagged structs."""
        self._decoder = decoder
        self._types = {struct.__struct_config__.tag for struct in get_args(decoder.type)}

    def read(self, data: bytes | str) -> M | Ping:
        """Read one. Raises `MsgspecError` or `RecursionError` for what is no message."""
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError:
            if _typed.decode(data).type in self._types:
                raise
            return Ping()
