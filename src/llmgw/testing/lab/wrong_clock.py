"""A wall clock that jumps under one process while it runs, by libfaketime; its monotonic clock goes on as it is."""

from pathlib import Path

_PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


def library() -> Path | None:
    """Find libfaketime, the form of it for processes with threads; `None` where it is not installed."""
    return next((found for place in _PLACES for found in Path("/").glob(place.lstrip("/"))), None)


class WrongClock:
    """One wall clock, shared by all processes started with `env`."""

    def __init__(self, file: Path, preload: Path) -> None:
        self._file = file
        self._preload = preload
        self.jump(0)

    @property
    def env(self) -> dict[str, str]:
        """What a process is started with to live by this clock."""
        return {
            "LD_PRELOAD": str(self._preload),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            # Reads the file at each look at any clock, which slows the process down, and takes every jump at once.
            "FAKETIME_NO_CACHE": "1",
            # Two names: of this release of the library, and of older ones.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def jump(self, seconds: int) -> None:
        """Be so many seconds ahead of the right time from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.replace(self._file)
