"""Server-sent events survive being cut at every byte."""

import json

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.sse import EventSplitter, StreamFilter, events, payload
from llmgw.gateway.usage import UsageMeter

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5}}


@st.composite
def streams(draw) -> tuple[list[bytes], str]:
    """A stream as the events it consists of; texts hold what could be taken for ends and markers."""
    end = draw(ENDS)
    texts = draw(st.lists(st.text(alphabet='ab"\\\n\r [DONE]data:usage{', max_size=12), max_size=5))
    lines = ["data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}) for text in texts]
    lines = [line for text in lines for line in draw(st.sampled_from([[text], [": ping", text]]))]
    lines.append("data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    usage = draw(st.booleans())
    if usage:
        lines.append("data: " + json.dumps({"choices": [], "usage": USAGE}))
    lines.append("data: [DONE]")
    return [(line + end + end).encode() for line in lines], end


@st.composite
def pieces(draw) -> tuple[list[bytes], list[bytes]]:
    whole, _ = draw(streams())
    data = b"".join(whole)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return whole, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


@given(pieces())
def test_whole_events_come_out_however_they_were_cut(case):
    whole, cut = case
    splitter = EventSplitter()
    out = []
    for piece in cut:
        given_now = splitter.feed(piece)
        assert given_now == b"" or list(events(given_now))
        out.append(given_now)
    assert b"".join(out) + splitter.rest == b"".join(whole)
    assert [payload(event) for event in events(b"".join(whole))] == [payload(event) for event in whole]


@given(pieces())
def test_the_filter_takes_out_the_usage_frame_and_nothing_else(case):
    whole, cut = case
    meter = UsageMeter()
    watched = StreamFilter(meter, drop_usage=True, on_first=lambda: None)
    out = b"".join([*(watched(piece) for piece in cut), watched(b"")])
    kept = [event for event in whole if b'"usage": {' not in event]
    assert out == b"".join(kept)
    assert meter.known == (len(kept) < len(whole))
    if meter.known:
        assert (meter.prompt, meter.cached, meter.completion) == (7, 5, 3)


@given(pieces())
def test_the_filter_changes_nothing_when_the_client_asked_for_usage(case):
    whole, cut = case
    watched = StreamFilter(UsageMeter(), drop_usage=False, on_first=lambda: None)
    assert b"".join([*(watched(piece) for piece in cut), watched(b"")]) == b"".join(whole)


@given(pieces(), st.data())
def test_a_stream_that_ends_too_early_ends_in_one_well_formed_error_event(case, data):
    whole, _ = case
    whole_bytes = b"".join(whole)
    at = data.draw(st.integers(0, whole_bytes.index(b'"finish_reason"')))
    watched = StreamFilter(UsageMeter(), drop_usage=True, on_first=lambda: None)
    out = watched(whole_bytes[:at]) + watched(b"") if at else watched(b"")
    told = list(events(out))
    assert "error" in json.loads(payload(told[-1]))
    assert out[: -len(told[-1])] == b"".join(whole)[: len(out) - len(told[-1])]
