import asyncio
import json
import os
from types import SimpleNamespace

from llmgw.gateway.access_log import AccessLog
from llmgw.gateway.usage import UsageMeter


async def test_lines_are_collected_and_written_whole():
    read, write = os.pipe()
    log = AccessLog(fd=write)
    call = SimpleNamespace(
        request_id=b"req_1",
        status=200,
        started_at=1.0,
        first_token_at=1.25,
        label="chat",
        model="m",
        alias=None,
        key="lk_ABCDEFGH",
        replica="r1",
        retries=0,
        meter=UsageMeter(),
        coverage="allowed",
        place=None,
    )
    log.finished(call, 1.5)
    call.place = SimpleNamespace(believed=0.75)
    call.meter.read(b'{"usage": {"prompt_tokens": 8, "completion_tokens": 1}}')
    log.finished(call, 2.5)
    log.flush()
    await asyncio.sleep(0)
    os.close(write)
    with os.fdopen(read) as file:
        lines = [json.loads(line) for line in file]
    assert [(line["event"], line["request"], line["seconds"]) for line in lines] == [
        ("request.done", "req_1", 0.5),
        ("request.done", "req_1", 1.5),
    ]
    assert lines[0]["first_token_s"] == 0.25
    assert "prompt_tokens" not in lines[0]
    assert "expected_tokens" not in lines[0]
    assert lines[1]["expected_tokens"] == 6
