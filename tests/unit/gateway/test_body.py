import json

import msgspec
import pytest

from llmgw.gateway.body import generation_body
from llmgw.schema.openai.request import ChatRequest


def sent(raw: str, *, kind: str = "llamacpp", context: int | None = None):
    data = raw.encode()
    request = msgspec.json.decode(data, type=ChatRequest)
    return generation_body(data, request, kind=kind, context=context)


def test_llamacpp_is_asked_for_a_stream_with_usage_and_a_limit():
    body = json.loads(sent('{"model":"m","messages":[]}', context=512))
    assert body == {
        "model": "m",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 512,
    }


@pytest.mark.parametrize("blank", ["", " \n", "\r\n\t"])
def test_fields_that_were_left_out_are_added_without_touching_the_rest(blank):
    raw = '{"model":"m", "messages": [ {"x":1.0} ] }' + blank
    assert sent(raw).startswith(b'{"model":"m", "messages": [ {"x":1.0} ] ')


def test_fields_that_were_sent_are_replaced_once():
    raw = '{"model":"m","stream":false,"stream_options":{"include_obfuscation":true},"max_tokens":null}'
    body = sent(raw, context=9)
    assert json.loads(body) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_obfuscation": True, "include_usage": True},
        "max_tokens": 9,
    }
    assert body.count(b'"stream"') == 1


def test_a_limit_of_the_client_stays():
    assert "max_tokens" not in json.loads(sent('{"model":"m","max_completion_tokens":3}', context=9))
    assert json.loads(sent('{"model":"m","max_tokens":3}', context=9))["max_tokens"] == 3
    assert json.loads(sent('{"model":"m","max_tokens":0}', context=9))["max_tokens"] == 0


def test_a_plain_request_to_another_engine_stays_as_it_came():
    raw = '{"model":"m", "max_tokens":null }  '
    assert sent(raw, kind="openai", context=9) == raw.encode()


def test_a_stream_of_another_engine_is_asked_for_its_usage_only():
    assert json.loads(sent('{"model":"m","stream":true}', kind="vllm", context=9)) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    raw = '{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
    assert sent(raw, kind="openai") == raw.encode()
