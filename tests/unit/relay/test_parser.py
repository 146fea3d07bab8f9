import pytest

from llmgw.relay.limits import Limits
from llmgw.relay.parser import RequestParser, Stage

HOST = b"Host: a\r\n"


def parse(data: bytes, **limits: int) -> RequestParser:
    parser = RequestParser(Limits(**limits))
    while data:
        rest = parser.feed(data)
        if len(rest) == len(data) or parser.refusal:
            break
        data = rest
    return parser


def test_a_request_comes_out_whole_with_lower_case_names_and_stripped_values():
    parser = parse(b"POST /v1/x?a=b?c HTTP/1.1\r\nHost: a\r\nX-Y:  v w \t\r\nEmpty:\r\nContent-Length: 3\r\n\r\nabc")

    (request,) = parser.requests
    assert (request.method, request.path, request.query, request.body) == ("POST", "/v1/x", "a=b?c", b"abc")
    assert request.headers == [(b"host", b"a"), (b"x-y", b"v w"), (b"empty", b""), (b"content-length", b"3")]
    assert request.keep_alive
    assert parser.stage is Stage.BETWEEN


def test_a_chunked_body_is_joined_and_its_extensions_and_trailers_are_dropped():
    parser = parse(
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nHost: evil\r\n\r\n"
    )

    (request,) = parser.requests
    assert request.body == b"abcde"
    assert request.headers == [(b"host", b"a"), (b"transfer-encoding", b"Chunked")]


def test_the_absolute_form_of_a_target_becomes_a_path():
    assert parse(b"GET http://a/b?c HTTP/1.1\r\n" + HOST + b"\r\n").requests[0].path == "/b"
    assert parse(b"GET HTTP://a HTTP/1.1\r\n" + HOST + b"\r\n").requests[0].path == "/"


def test_an_offer_to_upgrade_is_ignored_and_its_body_is_read():
    parser = parse(
        b"POST /p HTTP/1.1\r\n" + HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"Content-Length: 3\r\n\r\nabcGET /next HTTP/1.1\r\n" + HOST + b"\r\n"
    )

    first, second = parser.requests
    assert (first.path, first.body, first.header(b"upgrade")) == ("/p", b"abc", None)
    assert second.path == "/next"


def test_parsing_stops_after_a_complete_request_so_that_a_flood_is_not_held_as_objects():
    flood = (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * 10_000
    parser = RequestParser(Limits())

    rest = parser.feed(flood)

    assert 1 <= len(parser.requests) < 1000
    assert len(rest) > len(flood) / 2


def test_the_expectation_to_continue_is_told_once_the_head_is_complete():
    parser = parse(b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert parser.wants_continue
    assert parser.stage is Stage.BODY

    parser.feed(b"abc")

    assert not parser.wants_continue
    assert parser.requests


POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

SMUGGLING = {
    "length and chunked": (400, POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunked and length": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"),
    "two equal lengths": (400, POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    "two lengths": (400, POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    "a list of lengths": (400, POST + b"Content-Length: 3, 3\r\n\r\nabc"),
    "a signed length": (400, POST + b"Content-Length: +3\r\n\r\nabc"),
    "a negative length": (400, POST + b"Content-Length: -1\r\n\r\n"),
    "a hexadecimal length": (400, POST + b"Content-Length: 0x3\r\n\r\nabc"),
    "an empty length": (400, POST + b"Content-Length: \r\n\r\n"),
    "an overflowing length": (400, POST + b"Content-Length: 99999999999999999999\r\n\r\n"),
    "a blank before the colon": (400, POST + b"Content-Length : 3\r\n\r\nabc"),
    "a transfer coding besides chunked": (501, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunked not last": (400, POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    "chunked twice": (400, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunked, then identity": (400, POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"),
    "identity": (501, POST + b"Transfer-Encoding: identity\r\n\r\n"),
    "almost chunked": (501, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "chunked after a vertical tab": (400, POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n"),
    "chunked on a folded line": (400, POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    "chunked in HTTP/1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "bare LF after the request line": (400, b"GET / HTTP/1.1\nHost: a\r\n\r\n"),
    "bare LF after a header": (400, b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
    "bare CR within a header": (400, b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"),
    "bare LF at the end of the head": (400, b"GET / HTTP/1.1\r\nHost: a\r\n\nGET / HTTP/1.1\r\n\r\n"),
    "a folded line": (400, b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"),
    "a blank before the first header": (400, b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    "a NUL in a value": (400, b"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n"),
    "a blank in a name": (400, b"GET / HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n"),
    "an empty name": (400, b"GET / HTTP/1.1\r\nHost: a\r\n: z\r\n\r\n"),
    "a line without a colon": (400, b"GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n"),
    "bare LF after a chunk's size": (400, CHUNKED + b"3\nabc\r\n0\r\n\r\n"),
    "bare LF after a chunk": (400, CHUNKED + b"3\r\nabc\n0\r\n\r\n"),
    "a chunk longer than its size": (400, CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n"),
    "a blank after a chunk's size": (400, CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n"),
    "a blank before a chunk's size": (400, CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n"),
    "a prefixed chunk size": (400, CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a signed chunk size": (400, CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n"),
    "no chunk size": (400, CHUNKED + b"\r\nabc\r\n0\r\n\r\n"),
    "an overflowing chunk size": (400, CHUNKED + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "bare LF in a chunk extension": (400, CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "a fragment": (400, b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a target that is no path": (400, b"GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a target of another scheme": (400, b"GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a blank in the target": (400, b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a raw byte in the target": (400, b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a lower-case method": (400, b"get / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "TLS to a plain port": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "a tunnel": (501, b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a method that nothing here needs": (501, b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "HTTP/0.9": (505, b"GET /\r\n\r\n"),
    "HTTP/1.2": (505, b"GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    "HTTP/2 with prior knowledge": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "an unknown expectation": (417, POST + b"Expect: a-miracle\r\nContent-Length: 0\r\n\r\n"),
}


@pytest.mark.parametrize(("status", "data"), SMUGGLING.values(), ids=SMUGGLING)
def test_what_two_parsers_could_read_differently_is_refused(status, data):
    parser = parse(data)

    assert not parser.requests
    assert parser.refusal is not None
    assert parser.refusal.status == status


LIMITED = {
    "a long target": (431, b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a long header": (431, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 2000 + b"\r\n\r\n"),
    "a header without an end": (431, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 40_000),
    "many headers": (431, b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 20 + b"\r\n"),
    "a trailer without an end": (431, CHUNKED + b"0\r\nX: " + b"a" * 40_000),
    "endless chunk extensions": (431, CHUNKED + b"1;" + b"a" * 40_000),
    "a declared body": (413, POST + b"Content-Length: 101\r\n\r\n"),
    "a chunked body": (413, CHUNKED + b"64\r\n" + b"a" * 100 + b"\r\n1\r\na"),
    "one large chunk": (413, CHUNKED + b"65\r\n" + b"a" * 101),
}


@pytest.mark.parametrize(("status", "data"), LIMITED.values(), ids=LIMITED)
def test_what_exceeds_a_limit_is_refused(status, data):
    parser = parse(data, max_header_bytes=1000, max_headers=20, max_body_bytes=100)

    assert not parser.requests
    assert parser.refusal is not None
    assert parser.refusal.status == status


def test_chunks_of_one_byte_are_no_abuse():
    body = b"1\r\na\r\n" * 50_000
    parser = parse(CHUNKED + body + b"0\r\n\r\n")

    assert parser.requests[0].body == b"a" * 50_000


def test_requests_before_a_bad_one_are_served():
    parser = parse(b"GET /1 HTTP/1.1\r\n" + HOST + b"\r\nGARBAGE\r\n\r\n")

    assert [request.path for request in parser.requests] == ["/1"]
    assert parser.refusal is not None
