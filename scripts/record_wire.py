"""Records the messages between processes as this release sends them: `record_wire.py VERSION` into tests/golden/wire.

Each with every field filled in, and with the required ones only. What is there already is left as it is: frames of a
release are never edited.
"""

import json
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect

from llmgw.schema.door import DoorUpdate
from llmgw.schema.join import JoinAnswer, JoinRequest
from llmgw.schema.link import AgentMessage, ControlMessage, GatewayMessage, ServerMessage

FOLDER = Path(__file__).parent.parent / "tests" / "golden" / "wire"
LINKS: dict[str, Any] = {
    "agent_message": AgentMessage,
    "server_message": ServerMessage,
    "gateway_message": GatewayMessage,
    "control_message": ControlMessage,
    "door_update": DoorUpdate,
    "join_request": JoinRequest,
    "join_answer": JoinAnswer,
}
NUMBER, FRACTION, TIME = 7, 1.5, "2026-01-02T03:04:05Z"


def main(version: str) -> None:
    """Write what is missing."""
    for link, union in LINKS.items():
        for struct in get_args(union) or (union,):
            for name, full in (("full", True), ("least", False)):
                path = FOLDER / version / link / f"{struct.__struct_config__.tag}.{name}.json"
                if path.exists():
                    continue
                data = _filled(inspect.type_info(struct), "", full=full)
                msgspec.convert(data, struct)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def _filled(kind: inspect.Type, name: str, *, full: bool) -> Any:
    """Make a value of this kind for the field `name`."""
    match kind:
        case inspect.UnionType():
            return _filled(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), name, full=full)
        case inspect.StructType():
            fields = [field for field in kind.fields if full or field.required]
            tag = {} if kind.tag is None else {str(kind.tag_field): kind.tag}
            return tag | {field.encode_name: _filled(field.type, field.encode_name, full=full) for field in fields}
        case inspect.DictType():
            return {"name-1": _filled(kind.value_type, "value", full=full)} if full else {}
        case inspect.VarTupleType() | inspect.ListType():
            return [_filled(kind.item_type, name, full=full)]
        case inspect.TupleType():
            return [_filled(one, name, full=full) for one in kind.item_types]
        case _:
            return _plain(kind, name)


def _plain(kind: inspect.Type, name: str) -> Any:
    match kind:
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return NUMBER
        case inspect.FloatType():
            return FRACTION
        case inspect.DateTimeType():
            return TIME
        case inspect.StrType():
            return f"{name}-1"
        case _:
            raise TypeError(f"{name}: nothing is known of {kind}")


if __name__ == "__main__":
    main(sys.argv[1])
