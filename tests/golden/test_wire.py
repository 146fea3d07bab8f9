"""Messages between processes as releases sent them: they decode for ever, for neighbouring versions talk to each other.

`full` has every field of its release, `least` only those that were required. Frames of a release are never edited;
`scripts/record_wire.py VERSION` adds those of a new one.
"""

import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from llmgw.link.messages import Messages
from llmgw.schema.door import DoorUpdate
from llmgw.schema.join import JoinAnswer, JoinRequest
from llmgw.schema.link import AgentMessage, ControlMessage, GatewayMessage, ServerMessage

FOLDER = Path(__file__).parent / "wire"
LINKS = {
    "agent_message": AgentMessage,
    "server_message": ServerMessage,
    "gateway_message": GatewayMessage,
    "control_message": ControlMessage,
    "door_update": DoorUpdate,
    "join_request": JoinRequest,
    "join_answer": JoinAnswer,
}
FRAMES = sorted(FOLDER.glob("*/*/*.json"))
MAPS = frozenset({"labels", "flags", "env", "models", "replicas", "values", "node_selector"})
"""Fields whose names are data: a name there is no unknown field."""


def read(file, data):
    return msgspec.json.decode(data, type=LINKS[file.parent.name])


def kept(before, after, where=""):
    """Every value of `before` is in `after`, under the same name."""
    if isinstance(before, dict):
        for name, value in before.items():
            assert name in after, f"{where}.{name} is gone"
            kept(value, after[name], f"{where}.{name}")
    elif isinstance(before, list):
        assert len(before) == len(after), where
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            kept(one, other, f"{where}[{index}]")
    else:
        assert before == after, where


def with_more(data, name=""):
    """Add a field of a later release to every object."""
    if isinstance(data, list):
        return [with_more(one) for one in data]
    if not isinstance(data, dict):
        return data
    more = {key: with_more(value, key) for key, value in data.items()}
    return more if name in MAPS else {"a_later_field": {"type": "thing", "values": [1, None]}, **more}


@pytest.mark.parametrize("file", FRAMES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_recorded_message_decodes_and_nothing_of_it_is_lost(file):
    data = file.read_bytes()
    kept(json.loads(data), json.loads(msgspec.json.encode(read(file, data))))


@pytest.mark.parametrize("file", FRAMES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_fields_of_later_releases_are_passed_over(file):
    data = file.read_bytes()
    more = json.dumps(with_more(json.loads(data)))
    assert more.count("a_later_field") >= 1
    assert read(file, more) == read(file, data)


@pytest.mark.parametrize("name", ["agent_message", "server_message", "gateway_message", "control_message"])
def test_messages_of_later_releases_count_as_a_sign_of_life(name):
    messages = Messages(msgspec.json.Decoder(LINKS[name]))
    assert messages.read(b'{"type":"a_later_message","x":[{"y":1}]}') == messages.read(b'{"type":"ping"}')


def test_every_message_of_today_is_recorded():
    for name, union in LINKS.items():
        tags = {struct.__struct_config__.tag for struct in get_args(union) or (union,)}
        recorded = {file.name.partition(".")[0] for file in FRAMES if file.parent.name == name}
        assert tags <= recorded, f"scripts/record_wire.py records {tags - recorded}"
