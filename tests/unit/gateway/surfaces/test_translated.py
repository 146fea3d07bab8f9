import json

import msgspec
import pytest

from llmgw.core.untranslatable import Untranslatable
from llmgw.gateway.errors import ApiError, error_event
from llmgw.gateway.surfaces.translated import TranslatedExchange
from llmgw.relay.request import Request

HEAD = [(b"content-type", b"text/event-stream")]
DONE = b"data: [DONE]\n\n"


class Wire:
    """An exchange that keeps what is sent."""

    def __init__(self):
        self.request = Request(method="POST", path="/v1/other", query="", headers=[(b"x", b"1")], body=b"{}")
        self.started = self.gone = self.paused = self.ended = False
        self.source = None
        self.head = ()
        self.body = b""
        self.left = []

    def on_gone(self, callback):
        self.left.append(callback)

    def respond(self, status, headers, body):
        self.head, self.body, self.started, self.ended = (status, dict(headers)), body, True, True

    def start(self, status, headers, *, content_length=None):
        assert content_length is None
        self.head, self.started = (status, dict(headers)), True

    def write(self, data):
        assert not self.ended or not data
        self.body += data

    def end(self):
        self.ended = True


class Shouting:
    """Says each chunk's text in a line of its own, in capitals."""

    def headers(self):
        return [(b"x-loud", b"yes")]

    def answer(self, body):
        return msgspec.json.decode(body, type=dict[str, str])["text"].upper().encode()

    def error(self, status, told):
        return f"{status} {told['message']}".encode()

    def waiting(self, text):
        return f"({text})\n".encode()

    def chunk(self, chunk):
        said = chunk.choices[0].delta.content
        if said == "unspeakable":
            raise Untranslatable("what nobody can say aloud")
        return said.upper().encode() + b"\n"

    def failed(self, told):
        return f"FAILED {told['message']}\n".encode()

    def end(self):
        return b"END\n"


def chunk(text):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def exchange(wire):
    return TranslatedExchange(wire, Shouting())


STREAM = b": starting tiny\n\n" + chunk("a") + chunk("b") + DONE


@pytest.mark.parametrize("cut", range(len(STREAM)))
def test_a_stream_is_translated_event_by_event_wherever_it_is_cut(wire, exchange, cut):
    exchange.start(200, HEAD)
    exchange.write(STREAM[:cut])
    exchange.write(STREAM[cut:])
    exchange.end()
    exchange.end()
    assert wire.head == (200, {b"content-type": b"text/event-stream", b"x-loud": b"yes"})
    assert wire.body == b"(starting tiny)\nA\nB\nEND\n"
    assert wire.ended


def test_the_last_event_counts_though_its_blank_line_is_missing(wire, exchange):
    exchange.start(200, HEAD)
    exchange.write(chunk("a")[:-1])
    exchange.end()
    assert wire.body == b"A\nEND\n"


def test_an_error_ends_the_stream_and_nothing_follows_it(wire, exchange):
    exchange.start(200, HEAD)
    exchange.write(chunk("a") + error_event("the engine broke", code="upstream_error") + chunk("b") + b": x\n\n" + DONE)
    exchange.end()
    assert wire.body == b"A\nFAILED the engine broke\n"
    assert wire.ended


def test_an_error_that_is_only_a_text_is_told_too(wire, exchange):
    exchange.start(200, HEAD)
    exchange.write(b'data: {"error": "out of memory"}\n\n')
    exchange.end()
    assert wire.body == b"FAILED out of memory\n"


@pytest.mark.parametrize(
    "bad", [b'data: {"choices": 3}\n\n', b"data: {\n\n", b'data: "\xff"\n\n', chunk("unspeakable")]
)
def test_what_is_no_chunk_is_the_engines_fault_and_what_came_before_it_was_sent(wire, exchange, bad):
    exchange.start(200, HEAD)
    with pytest.raises(ApiError) as caught:
        exchange.write(chunk("a") + bad)
    assert (caught.value.status, caught.value.code) == (502, "upstream_error")
    exchange.write(error_event(caught.value.message, code="upstream_error"))
    exchange.end()
    assert wire.body.startswith(b"A\nFAILED the engine sent what ")


def test_a_whole_answer_is_translated_and_so_is_an_error(wire, exchange):
    exchange.respond(200, [(b"x-request-id", b"r")], b'{"text": "hello"}')
    assert wire.head == (200, {b"x-request-id": b"r", b"x-loud": b"yes"})
    assert wire.body == b"HELLO"


def test_an_error_is_translated_with_its_status(wire, exchange):
    exchange.respond(404, [], b'{"error": {"message": "no such model"}}')
    assert (wire.head, wire.body) == ((404, {b"x-loud": b"yes"}), b"404 no such model")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"text": 3}'])
def test_an_answer_that_is_no_chat_is_the_engines_fault_and_nothing_was_sent(wire, exchange, body):
    with pytest.raises(ApiError) as caught:
        exchange.respond(200, [], body)
    assert caught.value.status == 502
    assert not wire.started


def test_the_request_becomes_a_chats_and_keeps_its_headers(wire, exchange):
    exchange.translate(lambda raw: b"chat of " + raw)
    assert exchange.request.body == b"chat of {}"
    assert exchange.request.header(b"x") == b"1"
    assert wire.request.body == b"{}"


def test_all_else_is_the_clients_own_exchange(wire, exchange):
    left = lambda: None
    exchange.on_gone(left)
    exchange.source = source = object()
    wire.gone = wire.paused = True
    assert (wire.left, wire.source, exchange.source) == ([left], source, source)
    assert (exchange.gone, exchange.paused, exchange.started) == (True, True, False)
