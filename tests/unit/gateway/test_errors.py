import json

import msgspec
import pytest

from llmgw.gateway.errors import error_event, from_engine, malformed, overloaded, relay_error_body, status_of
from llmgw.schema.openai.request import ChatRequest


def broken(raw: bytes):
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(raw, type=ChatRequest)
    return malformed(raw, caught.value)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (b'{"model": "a", x}', "line 1, column 16 (byte 15)"),
        (b'{\n "model": "a",\n  oops}', "line 3, column 3 (byte 19)"),
        (b'{"model": "a"', "line 1, column 14 (byte 13)"),
        (b"", "line 1, column 1 (byte 0)"),
    ],
)
def test_broken_json_is_placed_by_line_column_and_byte(raw, place):
    error = broken(raw)
    assert (error.status, error.code, error.param) == (400, "invalid_json", None)
    assert place in error.message


@pytest.mark.parametrize(
    ("raw", "param", "code"),
    [
        (b'{"model": 1}', "model", "invalid_type"),
        (b'{"model":"a","stream_options":{"include_usage":1}}', "stream_options.include_usage", "invalid_type"),
        (b'{"model":"a","max_tokens":-1}', "max_tokens", "invalid_type"),
        (b"{}", "model", "missing_required_parameter"),
        (b"[]", None, "invalid_type"),
    ],
)
def test_a_wrong_type_is_placed_by_its_field(raw, param, code):
    error = broken(raw)
    assert (error.status, error.param, error.code) == (400, param, code)


def test_an_engines_error_is_given_all_members_and_keeps_its_own():
    told = b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":1024}}'
    error = from_engine(400, told)
    assert json.loads(error.body())["error"] == {
        "message": "too long",
        "type": "exceed_context_size_error",
        "param": None,
        "code": "context_length_exceeded",
        "n_ctx": 1024,
    }


def test_a_clients_fault_that_an_engine_calls_its_own_becomes_400():
    told = b'{"error":{"code":500,"message":"image input is not supported - hint: no mmproj","type":"server_error"}}'
    assert from_engine(500, told).status == 400
    assert from_engine(500, b'{"error":{"message":"Compute error."}}').status == 500


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail":"no"}', b'{"error":"plain words"}'])
def test_an_engines_error_in_any_shape_comes_out_in_ours(body):
    shaped = json.loads(from_engine(503, body).body())["error"]
    assert shaped["message"]
    assert shaped["type"] == "server_error"
    assert "code" in shaped


def test_the_status_of_an_error_in_a_stream_is_read_where_it_is_one():
    assert status_of(b'{"code":400}') == 400
    for told in (b'{"code":"x"}', b'{"code":200}', b"{}", b"?"):
        assert status_of(told) == 500


def test_errors_say_when_to_come_back():
    assert dict(overloaded("m", waiting=3).all_headers())[b"retry-after"] == b"2"


def test_an_error_event_is_one_event_that_sdks_raise_on():
    event = error_event("gone", code="upstream_error")
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert json.loads(event[6:])["error"]["message"] == "gone"


def test_the_relays_own_errors_have_the_same_shape():
    assert json.loads(relay_error_body(413, "body_too_large", "too large")) == {
        "error": {"message": "too large", "type": "invalid_request_error", "param": None, "code": "body_too_large"}
    }
    assert json.loads(relay_error_body(503, "x", "y"))["error"]["type"] == "server_error"
