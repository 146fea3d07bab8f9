"""The node's load, measured from one heartbeat to the next."""

import os
import time

import msgspec

from llmgw.hardware import cpu, memory
from llmgw.schema.report import Load

AT_LEAST_S = 2.0
"""Shorter spans say little: heartbeats sent at once reuse the last measurement, which carries its age."""


class LoadMeter:
    """Measures the share of busy processors between two calls."""

    def __init__(self) -> None:
        self._times = cpu.read_times()
        self._at = time.monotonic()
        self._last: Load | None = None

    def measure(self) -> Load | None:
        """Give the newest measurement with its age; `None` before the first span is over."""
        now = time.monotonic()
        if now - self._at >= AT_LEAST_S:
            self._last, self._at = self._look(), now
        if self._last is None:
            return None
        return msgspec.structs.replace(self._last, age_s=round(now - self._at, 3))

    def _look(self) -> Load:
        before, self._times = self._times, cpu.read_times()
        load1, load5, load15 = os.getloadavg()
        now = memory.read()
        return Load(
            age_s=0.0,
            cpu_percent=cpu.busy_percent(before, self._times),
            load1=round(load1, 2),
            load5=round(load5, 2),
            load15=round(load15, 2),
            memory_used_bytes=now.used_bytes,
            memory_available_bytes=now.available_bytes,
        )
