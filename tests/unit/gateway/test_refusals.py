import json
import os

from llmgw.gateway.access_log import AccessLog
from llmgw.gateway.call import RequestIds
from llmgw.gateway.metrics import WorkerCounters
from llmgw.gateway.refusals import Refusals


async def test_a_refusal_has_openais_shape_an_id_a_count_and_a_log_line():
    read, write = os.pipe()
    counters, log = WorkerCounters(), AccessLog(fd=write)
    refusals = Refusals(RequestIds(), counters, log)

    error = json.loads(refusals.body(431, "headers_too_large", "too many"))["error"]
    ((name, first),) = refusals.headers()
    refusals.body(400, "bad_request", "no")

    assert error == {"message": "too many", "type": "invalid_request_error", "param": None, "code": "headers_too_large"}
    assert name == b"x-request-id"
    assert refusals.headers() != ((name, first),)
    assert {dict(sample.labels)["status"] for sample in counters.samples({}, {})} == {"431", "400"}
    log.flush()
    os.close(write)
    with os.fdopen(read) as file:
        line = json.loads(file.readline())
    assert (line["event"], line["request"], line["code"]) == ("request.refused", first.decode(), "headers_too_large")


async def test_what_the_relay_refuses_carries_an_id_of_its_own(room):
    here = await room()
    ids = set()
    for path in ("/v1/models", "/v1/chat/completions"):
        answer = await here.ask(path, method="BREW")
        assert (answer.status, answer.error["code"]) == (400, "bad_request")
        ids.add(answer.headers[b"x-request-id"])
    assert len(ids) == 2
