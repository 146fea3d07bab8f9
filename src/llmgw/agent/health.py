"""Looking at an engine's port: does it answer, is it closed."""

import asyncio
import contextlib
from urllib.parse import urlsplit

import aiohttp

from llmgw.agent.liveness import Health

ANSWER_S = 2.0
CLOSED_S = 2.0


async def ask(session: aiohttp.ClientSession, endpoint: str) -> Health:
    """Ask for health. Any answer is one: a busy engine may say 503."""
    try:
        async with asyncio.timeout(ANSWER_S), session.get(f"{endpoint}/health", allow_redirects=False):
            return Health.ANSWERED
    except aiohttp.ClientConnectorError:
        return Health.REFUSED
    except (TimeoutError, aiohttp.ClientError):
        return Health.SILENT


async def is_closed(endpoint: str) -> bool:
    """True once nobody listens there; waits for up to 2 s, as the kernel closes a killed process's sockets late."""
    url = urlsplit(endpoint)
    for _ in range(20):
        try:
            async with asyncio.timeout(CLOSED_S / 2):
                _, writer = await asyncio.open_connection(url.hostname, url.port)
        except (OSError, TimeoutError):
            return True
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await asyncio.sleep(CLOSED_S / 20)
    return False
