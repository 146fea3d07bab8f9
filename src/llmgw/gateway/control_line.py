"""Ways to a control plane: its Unix socket on this machine, or an address with mutual TLS."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from llmgw.config.tls import split_address

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ControlLine(Protocol):
    """One way."""

    @property
    def name(self) -> str:
        """What it is called in logs."""

    async def open(self) -> Stream:
        """Connect. Raises `OSError`, `ConnectionRefusedError` for somebody who is no control plane of this cluster."""


class UnixLine:
    """A control plane on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The socket's path."""
        return str(self._path)

    async def open(self) -> Stream:
        """Connect. Raises `OSError`."""
        return await asyncio.open_unix_connection(str(self._path))


class TlsLine:
    """A control plane anywhere. `refuse` gives why who answers there is none; nothing is said to it then."""

    def __init__(self, address: str, context: ssl.SSLContext, refuse: Callable[[ssl.SSLObject], str | None]) -> None:
        self.name = address
        self._context = context
        self._refuse = refuse

    async def open(self) -> Stream:
        """Connect. Raises `OSError`."""
        host, port = split_address(self.name, field="control")
        reader, writer = await asyncio.open_connection(host, port, ssl=self._context, server_hostname="")
        why = self._refuse(cast("ssl.SSLObject", writer.get_extra_info("ssl_object")))
        if why is not None:
            writer.transport.abort()
            raise ConnectionRefusedError(f"it is refused: {why}")
        return reader, writer
