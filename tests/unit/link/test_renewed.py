import asyncio

import pytest
from structlog.testing import capture_logs

from llmgw.link.renewed import follow_renewals
from llmgw.schema.errors import InvalidInput


class Certificates:
    """Give each outcome once, then say that nothing changed."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.looks = 0

    def reload(self):
        self.looks += 1
        outcome = self.outcomes.pop(0) if self.outcomes else False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def followed(*sources):
    with capture_logs() as logs:
        running = asyncio.ensure_future(follow_renewals(sources, look_s=0.001))
        async with asyncio.timeout(5):
            while any(source.outcomes for source in sources):  # noqa: ASYNC110 (what is waited for has no event)
                await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    return [line["event"] for line in logs]


async def test_what_is_renewed_is_told_and_what_is_not_is_no_news():
    assert await followed(Certificates(False, True, False)) == ["tls.renewed"]


async def test_what_cannot_be_read_is_told_once_until_it_can_and_keeps_nobody_else_from_it():
    broken = InvalidInput("half written", field="tls")
    other = Certificates(False, False, False, False, True)
    events = await followed(Certificates(broken, OSError("gone"), True, broken, False), other)
    assert events == ["tls.unreadable", "tls.renewed", "tls.unreadable", "tls.renewed"]


async def test_without_certificates_there_is_nothing_to_follow():
    async with asyncio.timeout(5):
        await follow_renewals(())
