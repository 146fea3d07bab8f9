import pytest

from llmgw.relay.answer import ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"


def answer(data: bytes, *, head_only: bool = False, end: bool = False) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    parser.begin(head_only=head_only)
    body = parser.feed(data)
    if end:
        parser.eof()
    return parser, body


def test_an_answer_loses_what_means_one_connection_only():
    parser, body = answer(
        OK
        + b"Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nX-Kept: 2\r\n"
        + b"Content-Length: 2\r\n\r\nab"
    )

    assert parser.head == (200, [(b"x-kept", b"2")], 2)
    assert (body, parser.complete, parser.reusable) == (b"ab", True, True)


def test_interim_answers_are_skipped():
    parser, body = answer(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na"
    )

    assert parser.head == (200, [], 1)
    assert (body, parser.complete) == (b"a", True)


def test_an_answer_to_head_ends_with_its_head_and_its_connection_is_not_used_again():
    parser, body = answer(OK + b"Content-Length: 5\r\n\r\n", head_only=True)

    assert parser.complete
    assert parser.head == (200, [], 5)
    assert (body, parser.reusable) == (b"", False)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_an_answer_without_a_body_is_complete_at_its_head(status):
    parser, _ = answer(b"HTTP/1.1 " + status + b"\r\n\r\n")

    assert parser.complete
    assert parser.reusable


def test_an_answer_without_a_length_ends_with_the_connection():
    parser, body = answer(OK + b"\r\nabc", end=True)

    assert (body, parser.complete, parser.reusable, parser.broken) == (b"abc", True, False, None)


BROKEN = {
    "cut head": OK,
    "cut body": OK + b"Content-Length: 5\r\n\r\nabc",
    "cut chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "bad chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "length and chunked": OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "another coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a switch of protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "an endless head": OK + b"X: " + b"a" * 300_000,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_whole_answer_is_broken_in_words(data):
    parser, _ = answer(data, end=True)

    assert not parser.complete
    assert parser.broken


def test_bytes_nobody_asked_for_make_a_connection_unusable():
    parser, body = answer(OK + b"Content-Length: 1\r\n\r\na" + OK + b"Content-Length: 1\r\n\r\nb")

    assert (body, parser.complete, parser.reusable) == (b"a", True, False)


def test_a_parser_reads_one_answer_after_the_other():
    parser = ResponseParser()
    for body in (b"a", b"bc"):
        parser.begin(head_only=False)
        assert parser.feed(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)) == body
        assert parser.reusable


def test_connection_close_is_obeyed():
    parser, _ = answer(OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n")

    assert parser.complete
    assert not parser.reusable
