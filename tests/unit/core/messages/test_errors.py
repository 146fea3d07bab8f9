import pytest

from llmgw.core.messages.errors import error_body


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_the_status_decides_the_type(status, kind):
    body = error_body(status, {"message": "so it is", "type": "server_error", "param": None, "code": "c"}, "req_1")
    error = {"type": kind, "message": "so it is", "code": "c"}
    assert body == {"type": "error", "error": error, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"type": "server_error", "code": "upstream_error"}, "api_error"),
        ({"type": "server_error", "code": "upstream_timeout"}, "timeout_error"),
        ({"type": "server_error", "code": "guard_unavailable"}, "overloaded_error"),
        ({"type": "rate_limit_error", "code": "model_overloaded"}, "rate_limit_error"),
        ({"type": "invalid_request_error", "code": "x"}, "invalid_request_error"),
        ({"type": "server_error", "code": 400}, "invalid_request_error"),
        ({}, "api_error"),
    ],
)
def test_within_a_stream_its_own_words_decide(told, kind):
    assert error_body(None, told, "r")["error"]["type"] == kind


def test_rules_and_categories_stay_beside():
    told = {"message": "m", "type": "x", "code": "c", "guardrails": ["p/r"], "categories": ["violence"]}
    error = error_body(400, told, "r")["error"]
    assert (error["guardrails"], error["categories"]) == (["p/r"], ["violence"])


def test_a_prompt_that_is_too_long_is_told_in_words_that_clients_act_on():
    told = {"message": "9000 tokens do not fit 4096", "code": "context_length_exceeded"}
    assert error_body(400, told, "r")["error"]["message"] == "prompt is too long: 9000 tokens do not fit 4096"
