import msgspec
import pytest

from llmgw.core.messages.stream import MessageStream, event
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.openai.chat_answer import ChatChunk
from llmgw.testing.anthropic_wire import events_of, message_of

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
GOLDEN = """\
event: message_start
data: {"type":"message_start","message":{"id":"msg_7","type":"message","role":"assistant","model":"tiny","content":[],\
"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":0,\
"cache_read_input_tokens":5,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"look",\
"input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"at\\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\\"sea\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":4,\
"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"output_tokens":3}}

event: message_stop
data: {"type":"message_stop"}

"""


def chunk(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(arguments="", *, index=0, **more):
    return {"index": index, "function": {"arguments": arguments, **more}}


def told(*chunks):
    stream = MessageStream()
    out = [stream.chunk(msgspec.convert({"id": "chatcmpl-7", "model": "tiny", **one}, ChatChunk)) for one in chunks]
    return b"".join([*out, stream.end()])


LOOK = call(index=0, name="look") | {"id": "call_1"}


def test_thoughts_words_and_a_call_as_the_wire_has_them():
    body = told(
        chunk(role="assistant", content=None),
        {**chunk(reasoning_content="hm"), "timings": {"cache_n": 5, "prompt_n": 4, "predicted_n": 1}},
        chunk(content="I "),
        chunk(content="look."),
        chunk(tool_calls=[LOOK]),
        chunk(tool_calls=[call('{"at":')]),
        chunk(tool_calls=[call('"sea"}')]),
        chunk("tool_calls"),
        {"choices": [], "usage": USAGE},
    )
    assert body.decode() == GOLDEN


def test_the_first_event_waits_for_the_tokens_of_the_prompt_but_not_past_the_first_word():
    stream = MessageStream()
    role = msgspec.convert(chunk(role="assistant", content=""), ChatChunk)
    assert stream.chunk(role) == b""
    counted = msgspec.convert({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}, ChatChunk)
    (first,) = events_of(stream.chunk(counted))
    assert first["message"]["usage"]["input_tokens"] == 9

    (first, *_) = events_of(MessageStream().chunk(msgspec.convert(chunk(content="hi"), ChatChunk)))
    assert first["message"]["usage"]["input_tokens"] is None


def test_several_calls_are_several_blocks():
    body = told(
        chunk(tool_calls=[LOOK, call("{}")]),
        chunk(tool_calls=[call(index=1, name="see") | {"id": "call_2"}]),
        chunk(tool_calls=[call('{"a":1}', index=1)]),
        chunk("stop"),
    )
    message = message_of(body)
    assert [(block["name"], block["id"], block["input"]) for block in message["content"]] == [
        ("look", "call_1", {}),
        ("see", "call_2", {"a": 1}),
    ]
    assert message["stop_reason"] == "tool_use"


def test_an_answer_that_is_cut_short_by_a_rule_is_a_refusal():
    message = message_of(told(chunk(content="I would "), chunk("content_filter")))
    assert (message["stop_reason"], message["content"][0]["text"]) == ("refusal", "I would ")


def test_an_answer_of_nothing_is_a_whole_message():
    for chunks in ([], [chunk("stop")], [chunk(role="assistant"), chunk("length"), {"choices": [], "usage": USAGE}]):
        assert message_of(told(*chunks))["content"] == []


def test_calls_that_cannot_be_taken_apart_are_refused():
    see = call(index=1, name="see")
    for chunks in (
        [chunk(tool_calls=[LOOK]), chunk(tool_calls=[see]), chunk(tool_calls=[call("{}")])],
        [chunk(tool_calls=[call("{}")])],
    ):
        with pytest.raises(Untranslatable):
            told(*chunks)


def test_an_event_is_named_twice():
    assert event("ping", {}) == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_last_count_without_a_word_of_the_cache_keeps_what_was_known():
    counted = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    message = message_of(told({**chunk(content="hi"), "usage": USAGE}, chunk("content_filter"), counted))
    assert (message["usage"]["input_tokens"], message["usage"]["cache_read_input_tokens"]) == (4, 5)
