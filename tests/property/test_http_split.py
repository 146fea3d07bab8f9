"""Requests and answers are parsed the same however their bytes are split."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.relay.answer import ResponseParser
from llmgw.relay.limits import Limits
from llmgw.relay.parser import RequestParser

LIMITS = Limits(max_header_bytes=4096, max_headers=20, max_body_bytes=5000)

token = st.text("abcdefghijklmnopqrstuvwxyzABC-_0123456789", min_size=1, max_size=12).map(str.encode)
value = st.text("abc \t,;=/\"'0123456789", max_size=30).map(lambda text: text.strip().encode())
FRAMING = (b"host", b"content-length", b"transfer-encoding", b"connection", b"expect", b"upgrade")
header = st.tuples(token.filter(lambda name: name.lower() not in FRAMING), value)
extra = st.lists(header, max_size=5).map(lambda headers: b"".join(b"%b: %b\r\n" % pair for pair in headers))
body = st.binary(max_size=600)


@st.composite
def chunked(draw, data):
    """Frame a body in chunks of drawn sizes, with extensions and trailers here and there."""
    framed, rest = b"", data
    while rest:
        size = draw(st.integers(1, len(rest)))
        framed += b"%x%b\r\n%b\r\n" % (size, draw(st.sampled_from([b"", b";a=b"])), rest[:size])
        rest = rest[size:]
    return framed + b"0\r\n" + draw(st.sampled_from([b"", b"X-Trailer: y\r\n"])) + b"\r\n"


@st.composite
def framed(draw):
    """Give framing headers and the framed body."""
    data = draw(body)
    if draw(st.booleans()):
        return b"Content-Length: %d\r\n" % len(data), data
    return b"Transfer-Encoding: chunked\r\n", draw(chunked(data))


@st.composite
def request(draw):
    """Give a well-formed request."""
    lines, data = draw(framed())
    method = draw(st.sampled_from([b"POST", b"PUT", b"GET"]))
    target = draw(st.sampled_from([b"/", b"/v1/chat/completions", b"/a?b=c", b"http://h/x"]))
    upgrade = draw(st.sampled_from([b"", b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"]))
    return b"%b %b HTTP/1.1\r\nHost: h\r\n%b%b%b\r\n%b" % (method, target, draw(extra), upgrade, lines, data)


@st.composite
def answer(draw):
    """Give a well-formed answer, perhaps after an interim one."""
    lines, data = draw(framed())
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    return interim + b"HTTP/1.1 200 OK\r\n%b%b\r\n%b" % (draw(extra), lines, data)


def damaged(data: bytes, position: int, byte: int) -> bytes:
    at = position % len(data)
    return data[:at] + bytes([byte]) + data[at + 1 :]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(marks)]


def requests_of(parts: list[bytes]) -> tuple[list[tuple[object, ...]], object, object]:
    parser = RequestParser(LIMITS)
    for part in parts:
        rest = part
        while rest and parser.refusal is None:
            rest = parser.feed(rest)
    seen = [(r.method, r.path, r.query, tuple(r.headers), r.body, r.keep_alive) for r in parser.requests]
    refused = parser.refusal and parser.refusal.status
    return seen, refused, parser.stage


def answer_of(parts: list[bytes]) -> tuple[object, bytes, bool, bool]:
    parser = ResponseParser()
    parser.begin(head_only=False)
    seen = b""
    for part in parts:
        seen += parser.feed(part)
        if parser.broken is not None or parser.complete:
            break
    parser.eof()
    return parser.head, seen, parser.complete, parser.broken is None


def bytewise(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


cuts = st.lists(st.integers(0, 5000), max_size=8)


@given(st.lists(request(), min_size=1, max_size=3), cuts)
def test_requests_are_the_same_however_they_are_split(requests, cuts):
    data = b"".join(requests)
    whole = requests_of([data])

    assert len(whole[0]) == len(requests)
    assert whole[1] is None
    assert requests_of(pieces(data, cuts)) == whole
    assert requests_of(bytewise(data)) == whole


@given(request(), st.integers(0, 5000), st.integers(0, 255), cuts)
def test_a_damaged_request_is_judged_the_same_however_it_is_split(data, position, byte, cuts):
    data = damaged(data, position, byte)
    whole = requests_of([data])

    assert requests_of(pieces(data, cuts)) == whole
    assert requests_of(bytewise(data)) == whole


@given(answer(), cuts)
def test_an_answer_is_the_same_however_it_is_split(data, cuts):
    whole = answer_of([data])

    assert whole[2:] == (True, True)
    assert answer_of(pieces(data, cuts)) == whole
    assert answer_of(bytewise(data)) == whole


@given(answer(), st.integers(0, 5000), st.integers(0, 255), cuts)
def test_a_damaged_answer_is_judged_the_same_however_it_is_split(data, position, byte, cuts):
    data = damaged(data, position, byte)
    whole = answer_of([data])

    assert answer_of(pieces(data, cuts)) == whole
    assert answer_of(bytewise(data)) == whole


@settings(max_examples=300)
@given(st.binary(max_size=300), cuts)
def test_garbage_never_does_more_than_be_refused(data, cuts):
    assert requests_of(pieces(data, cuts)) == requests_of([data])
    assert answer_of(pieces(data, cuts)) == answer_of([data])
