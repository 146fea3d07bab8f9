import json

import pytest

from llmgw.gateway.assemble import Assembler, Incomplete
from llmgw.gateway.errors import EngineError

FRAME = {"created": 1, "id": "x", "model": "m", "system_fingerprint": "f", "object": "chat.completion.chunk"}


def put_together(*chunks, chat: bool = True):
    assembler = Assembler(chat=chat)
    for chunk in chunks:
        assembler.add(chunk if isinstance(chunk, bytes) else json.dumps({**FRAME, **chunk}).encode())
    return json.loads(assembler.result())


def delta(content=None, *, index=0, finish=None, **more):
    inside = {name: more.pop(name) for name in ("role", "tool_calls", "reasoning_content") if name in more}
    if content is not None or "role" in inside:
        inside["content"] = content
    return {"choices": [{"finish_reason": finish, "index": index, "delta": inside, **more}]}


def test_a_chat_comes_out_as_llamacpp_says_it_plain():
    usage = {"completion_tokens": 2, "prompt_tokens": 3, "total_tokens": 5}
    whole = put_together(
        delta(role="assistant"),
        delta(" 1"),
        delta(" 2"),
        delta(finish="length"),
        {"choices": [], "usage": usage, "timings": {"cache_n": 1, "predicted_ms": 0.223}},
        b"[DONE]",
    )
    assert whole == {
        "choices": [{"finish_reason": "length", "index": 0, "message": {"role": "assistant", "content": " 1 2"}}],
        "created": 1,
        "model": "m",
        "system_fingerprint": "f",
        "object": "chat.completion",
        "usage": usage,
        "id": "x",
        "timings": {"cache_n": 1, "predicted_ms": 0.223},
    }


def test_an_empty_answer_has_empty_content():
    assert put_together(delta(role="assistant"), delta(finish="stop"))["choices"][0]["message"]["content"] == ""


def test_choices_that_come_mixed_are_put_in_order():
    whole = put_together(
        delta("b", index=1), delta("a", index=0), delta(index=1, finish="stop"), delta(index=0, finish="length")
    )
    assert [(choice["index"], choice["message"]["content"]) for choice in whole["choices"]] == [(0, "a"), (1, "b")]
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["length", "stop"]


def test_tool_calls_are_joined_by_index_without_it():
    def part(index, **more):
        return delta(tool_calls=[{"index": index, **more}])

    whole = put_together(
        delta(role="assistant"),
        part(0, id="c0", type="function", function={"name": "f", "arguments": "{"}),
        part(0, function={"arguments": '"a":1}'}),
        part(1, id="c1", type="function", function={"name": "g", "arguments": "{}"}),
        delta(finish="tool_calls"),
    )
    assert whole["choices"][0]["message"]["tool_calls"] == [
        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert whole["choices"][0]["finish_reason"] == "tool_calls"


def test_reasoning_and_logprobs_are_joined():
    one, two = {"token": "a", "logprob": -0.5}, {"token": "b", "logprob": 0.0}
    whole = put_together(
        delta(reasoning_content="I "),
        delta(reasoning_content="think"),
        delta("a", logprobs={"content": [one]}),
        delta("b", logprobs={"content": [two]}),
        delta(finish="stop"),
    )
    choice = whole["choices"][0]
    assert choice["message"]["reasoning_content"] == "I think"
    assert choice["logprobs"] == {"content": [one, two]}


def test_completions_come_out_in_their_own_shape():
    def text(said, *, index=0, finish=None, logprobs=None):
        return {"choices": [{"text": said, "index": index, "logprobs": logprobs, "finish_reason": finish}]}

    whole = put_together(
        b"null",
        text(" 1", index=1),
        text(" 1", logprobs={"content": [1]}),
        text("", index=1, finish="stop"),
        text("", finish="length"),
        chat=False,
    )
    assert whole["object"] == "text_completion"
    assert whole["choices"] == [
        {"text": " 1", "index": 0, "logprobs": {"content": [1]}, "finish_reason": "length"},
        {"text": " 1", "index": 1, "logprobs": None, "finish_reason": "stop"},
    ]


def test_an_error_in_the_stream_is_raised_with_its_status():
    with pytest.raises(EngineError) as caught:
        put_together(delta("a"), b'{"error":{"code":400,"message":"no","type":"invalid_request_error"}}')
    assert caught.value.status == 400
    assert json.loads(caught.value.body())["error"]["message"] == "no"


@pytest.mark.parametrize("chunks", [[], [delta("a")], [delta("a", finish="stop"), delta("b", index=1)]])
def test_a_stream_that_ends_too_early_is_no_answer(chunks):
    with pytest.raises(Incomplete):
        put_together(*chunks)
