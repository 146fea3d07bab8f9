from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion import Completion

from llmgw.core.guard.openai_block import blocked_answer, closing_chunks

FRAME = {"id": "c", "created": 1, "model": "m"}
CHUNK = {
    **FRAME,
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "a"}}],
    "usage": None,
}
TEXT = {**FRAME, "object": "text_completion", "choices": [{"index": 0, "text": "a"}]}
ANSWER = {
    **FRAME,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "SECRET"}]},
            "message": {
                "role": "assistant",
                "content": "SECRET",
                "tool_calls": [{"function": {"arguments": "SECRET"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def test_a_plain_answer_keeps_nothing_of_what_it_said():
    blocked = blocked_answer(ANSWER, "blocked by p/r")
    assert "SECRET" not in repr(blocked)
    typed = ChatCompletion.model_validate(blocked, strict=True)
    assert typed.choices[0].finish_reason == "content_filter"
    assert typed.choices[0].message.content == "blocked by p/r"
    assert typed.usage.total_tokens == 2


def test_a_plain_completion_too():
    typed = Completion.model_validate(blocked_answer(TEXT, "blocked"), strict=True)
    assert (typed.choices[0].finish_reason, typed.choices[0].text) == ("content_filter", "blocked")


def test_a_stream_ends_with_a_reason_for_every_choice_that_is_open():
    chunks = closing_chunks(CHUNK, [1, 0, 1])
    typed = [ChatCompletionChunk.model_validate(chunk, strict=True) for chunk in chunks]
    assert [(one.choices[0].index, one.choices[0].finish_reason) for one in typed] == [
        (0, "content_filter"),
        (1, "content_filter"),
    ]
    assert all(one.id == "c" and one.usage is None for one in typed)


def test_words_come_before_the_end_where_nothing_was_said_yet():
    said, ended = closing_chunks(CHUNK, [0], "blocked")
    assert said["choices"][0]["delta"] == {"role": "assistant", "content": "blocked"}
    assert ended["choices"][0]["delta"] == {}
    text, _ = closing_chunks(TEXT, [0], "blocked")
    assert text["choices"][0]["text"] == "blocked"
