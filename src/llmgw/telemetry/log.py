"""Logs: structlog on the standard library, secrets redacted at the formatter."""

import logging
import os
import re
import sys
from typing import TextIO

import structlog

_SECRET = re.compile(r"\b(l[ktej]_[A-Za-z0-9]{8})[A-Za-z0-9_-]{8,}|(?i:(bearer)\s+)[A-Za-z0-9._~+/=-]{8,}")


def configure(*, level: str, style: str, process: str) -> None:
    """Set up logging for a process, on standard error.

    `style` is `json`, `console`, or `auto` (console on a terminal, else JSON).
    """
    if style == "auto":
        style = "console" if sys.stderr.isatty() else "json"
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if style == "json" else structlog.dev.ConsoleRenderer(colors=False)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = _Unbuffered(sys.stderr)
    handler.setFormatter(
        _Redacting(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("websockets", "uvicorn.access", "alembic", "asyncio", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.contextvars.bind_contextvars(process=process)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Give a logger; the first argument of its methods is a stable event name."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


def redact(text: str) -> str:
    """Take secrets of ours and bearer tokens out of a text; the public prefix of a key stays."""
    return _SECRET.sub(lambda match: f"{match[1] or match[2]} [redacted]", text)


class _Unbuffered(logging.StreamHandler[TextIO]):
    """Writes each line at once, past Python's buffers. One that cannot be written, on a full disk, is lost and counted.

    What lay in a buffer would be tried again at the end, and turn the exit status of a process that did well into 120.
    """

    lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            text = self.format(record) + self.terminator
        except Exception:  # noqa: BLE001 - a log line that cannot be made must not end what it tells of
            self.handleError(record)
            return
        if self.lost:
            text = f'{{"event": "log.lost", "level": "warning", "lines": {self.lost}}}\n{text}'
        try:
            self._write(text)
        except OSError:
            self.lost += 1
        else:
            self.lost = 0

    def _write(self, text: str) -> None:
        """Write all of it, or raise `OSError`; a part of a line on a disk that became full ends with the next one's."""
        try:
            handle = self.stream.fileno()
        except (OSError, ValueError):
            self.stream.write(text)  # no file: a test's
            self.flush()
            return
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(handle, data) :]


class _Redacting(structlog.stdlib.ProcessorFormatter):
    """Redacts after rendering: only then is every part of the line known."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))
