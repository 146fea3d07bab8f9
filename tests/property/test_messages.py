"""A message is the same in a stream as in one piece, however the model's words and the bytes of the wire are cut."""

import json

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.surfaces.messages import MessagesTranslator
from llmgw.gateway.surfaces.translated import TranslatedExchange
from llmgw.relay.request import Request
from llmgw.testing.anthropic_wire import message_of

WORDS = st.text(alphabet='ab"\\\n\r ö😀:data{}[DONE]', max_size=20)
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}


class Wire:
    """Keeps what is sent."""

    def __init__(self):
        self.request = Request(method="POST", path="/v1/messages", query="", headers=[])
        self.started = self.gone = False
        self.body = b""

    def start(self, status, headers, *, content_length=None):
        self.started = True

    def respond(self, status, headers, body):
        self.body = body

    def write(self, data):
        self.body += data

    def end(self):
        pass


@st.composite
def said(draw):
    """All that a model says: thoughts, words, calls with inputs of any depth."""
    inputs = st.recursive(WORDS | st.integers(), lambda inner: st.dictionaries(WORDS, inner, max_size=2), max_leaves=3)
    calls = draw(st.lists(st.dictionaries(WORDS, inputs, max_size=2), max_size=3))
    return {
        "reasoning_content": draw(WORDS),
        "content": draw(WORDS),
        "tool_calls": [
            {"index": n, "id": f"call_{n}", "function": {"name": "look", "arguments": json.dumps(one)}}
            for n, one in enumerate(calls)
        ],
    }


@st.composite
def deltas(draw, whole):
    """The same in pieces, in the order in which engines stream."""
    out = [{"role": "assistant", "content": None}]
    for name in ("reasoning_content", "content"):
        out += [{name: piece} for piece in draw(pieces(whole[name]))]
    for call in whole["tool_calls"]:
        first, *rest = draw(pieces(call["function"]["arguments"])) or [""]
        out.append({"tool_calls": [{**call, "function": {"name": "look", "arguments": first}}]})
        out += [{"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]} for piece in rest]
    return out


@st.composite
def pieces(draw, text):
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def answers(draw):
    """An answer, plain and as the bytes of a stream cut anywhere."""
    whole = draw(said())
    finish = draw(st.sampled_from(["stop", "length", "content_filter", *(["tool_calls"] * bool(whole["tool_calls"]))]))
    frame = {"id": "chatcmpl-7", "model": "tiny"}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **whole}}
    plain = json.dumps({**frame, "choices": [choice], "usage": USAGE}).encode()
    bodies = [{"choices": [{"index": 0, "delta": delta}]} for delta in draw(deltas(whole))]
    bodies += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": USAGE}]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = ["data: " + json.dumps({**frame, **body}) for body in bodies]
    lines = [line for data in lines for line in draw(st.sampled_from([[data], [": ping", data]]))]
    stream = "".join(line + end + end for line in [*lines, "data: [DONE]"]).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return plain, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def exchange():
    wire = Wire()
    return wire, TranslatedExchange(wire, MessagesTranslator("req_1"))


@given(answers())
def test_a_stream_tells_the_message_that_the_plain_answer_is(case):
    plain, stream = case
    whole, asked = exchange()
    asked.respond(200, [], plain)
    wire, streamed = exchange()
    streamed.start(200, [])
    for piece in stream:
        streamed.write(piece)
    streamed.end()
    assert message_of(wire.body) == json.loads(whole.body)
