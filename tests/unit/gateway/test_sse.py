import pytest

from llmgw.gateway.sse import MAX_EVENT_BYTES, EventSplitter, StreamFilter, payload
from llmgw.gateway.usage import UsageMeter

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
FINISH = b'data: {"choices":[{"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def through(*pieces: bytes, drop_usage: bool = True, firsts: list[int] | None = None) -> bytes:
    seen = firsts if firsts is not None else []
    watched = StreamFilter(UsageMeter(), drop_usage=drop_usage, on_first=lambda: seen.append(1))
    return b"".join([*(watched(piece) for piece in pieces), watched(b"")])


def test_a_carriage_return_at_the_very_end_may_be_half_a_line_end():
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\n\r") == b""
    assert splitter.feed(b"\ndata: b") == b"data: a\r\n\r\n"
    assert splitter.rest == b"data: b"


def test_an_event_that_never_ends_is_not_held_for_ever():
    splitter = EventSplitter()
    assert splitter.feed(b"x" * (MAX_EVENT_BYTES + 1))
    assert splitter.rest == b""


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: a\n\n", b"a"),
        (b"data:a\ndata: b\n\n", b"a\nb"),
        (b"event: x\r\ndata: a\r\n\r\n", b"a"),
        (b": comment\n\n", None),
        (b'error: {"code":500}\n\n', b'{"error":{"code":500}}'),
    ],
)
def test_the_data_of_an_event(event, data):
    assert payload(event) == data


def test_a_comment_is_no_first_token():
    firsts: list[int] = []
    watched = StreamFilter(UsageMeter(), drop_usage=True, on_first=lambda: firsts.append(1))
    assert watched(b": wait\n\n") == b": wait\n\n"
    assert firsts == []
    watched(b": wait\n\n" + FINISH)
    watched(FINISH)
    assert firsts == [1]


def test_usage_beside_choices_stays():
    with_choices = USAGE.replace(b"[]", b'[{"text":"","finish_reason":"stop"}]')
    assert through(with_choices, DONE) == with_choices + DONE


def test_what_a_model_says_of_usage_is_no_usage():
    said = b'data: {"choices":[{"delta":{"content":"{\\"choices\\":[],\\"usage\\":{}} data: [DONE]"}}]}\n\n'
    assert through(said, FINISH, DONE) == said + FINISH + DONE


@pytest.mark.parametrize("end", [[FINISH], [DONE], [FINISH, USAGE], [FINISH + DONE]])
def test_a_stream_that_said_why_it_ended_is_whole(end):
    assert b'"error"' not in through(*end)


def test_a_stream_that_just_ends_gets_an_error_event():
    assert b'"error"' in through(b'data: {"choices":[]}\n\n', b"data: {")
    assert b'"error"' in through()


def test_gaps_are_counted_between_pieces_after_the_first_token():
    gaps = []
    watched = StreamFilter(UsageMeter(), drop_usage=True, on_first=lambda: None, on_gap=gaps.append)
    for piece in (b": hello\n\n", b'data: {"a"', b":1}\n\n", b"data: 2\n\n", b"data: 3", b"\n\n"):
        watched(piece)
    assert len(gaps) == 2
    assert all(0 <= gap < 5 for gap in gaps)
