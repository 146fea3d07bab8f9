import pytest

from llmgw.core.guard.openai_answer import AnswerChannel, AnswerPiece, pieces, with_texts

CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "choices": [
        {"index": 1, "delta": {"role": "assistant", "content": "hi"}, "logprobs": {"content": [{"token": "hi"}]}},
        {"index": 0, "delta": {"tool_calls": [{"index": 2, "id": "x", "function": {"arguments": '{"a'}}]}},
    ],
    "usage": None,
}


def test_texts_of_a_chunk_are_named_by_choice_and_place():
    assert pieces(CHUNK) == [
        AnswerPiece(AnswerChannel(1, "content"), "hi"),
        AnswerPiece(AnswerChannel(0, "tool_calls[2].function.arguments"), '{"a'),
    ]


def test_plain_answers_have_the_same_channels():
    answer = {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hi",
                    "reasoning_content": "hm",
                    "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                "finish_reason": "stop",
            }
        ]
    }
    assert [piece.channel.place for piece in pieces(answer)] == [
        "content",
        "reasoning_content",
        "tool_calls[0].function.name",
        "tool_calls[0].function.arguments",
    ]


def test_completions_have_one_text():
    assert pieces({"choices": [{"index": 0, "text": "a", "finish_reason": None}]}) == [
        AnswerPiece(AnswerChannel(0, "text"), "a")
    ]


@pytest.mark.parametrize(
    "choice",
    [
        {"index": 0, "delta": {"unheard_of": "POISON"}},
        {"index": 0, "delta": {"content": [{"type": "text", "text": "POISON"}]}},
        {"index": 0, "delta": {}, "extra": {"words": ["POISON"]}},
        {"index": "0", "delta": {"content": "POISON"}},
        {"delta": {"audio": {"transcript": "POISON"}}},
    ],
)
def test_text_in_members_nobody_knows_is_text(choice):
    assert [piece.text for piece in pieces({"choices": [choice]})] == ["POISON"]


@pytest.mark.parametrize(
    "body", [{}, {"choices": None}, {"choices": [None, 7]}, {"choices": [{"delta": None}]}, {"error": {}}]
)
def test_what_has_no_text_has_no_pieces(body):
    assert pieces(body) == []
    assert pieces(with_texts(body, lambda piece: "x")) == []


def test_texts_are_replaced_where_they_stand_and_probabilities_that_hold_them_go():
    changed = with_texts(CHUNK, lambda piece: "[x]" if piece.text == "hi" else piece.text)
    assert changed["choices"][0] == {"index": 1, "delta": {"role": "assistant", "content": "[x]"}, "logprobs": None}
    assert changed["choices"][1] == CHUNK["choices"][1]
    assert with_texts(CHUNK, lambda piece: piece.text) == CHUNK
