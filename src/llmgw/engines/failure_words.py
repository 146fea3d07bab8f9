"""Why an engine ended, in words: from the first decisive line of its log, else from its exit status."""

import re
import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llmgw.schema.report import Death


class Words(NamedTuple):
    """One kind of failure: the line that gives it away and what to say. `{0}` is the pattern's first group."""

    pattern: re.Pattern[str]
    text: str
    heals: bool = True
    counts: bool = True


def words(pattern: str, text: str, *, heals: bool = True, counts: bool = True) -> Words:
    """Make an entry of a table; see `Words`."""
    return Words(re.compile(pattern), text, heals=heals, counts=counts)


def decisive(lines: Iterable[str], table: Sequence[Words], status: int | None) -> Death | None:
    """Explain by the first line that any entry of the table knows: later ones are its consequences."""
    for line in lines:
        for entry in table:
            found = entry.pattern.search(line)
            if found is None:
                continue
            cause = entry.text.format(*found.groups())
            return Death(
                status=status,
                asked=False,
                cause=cause,
                heals=entry.heals,
                counts=entry.counts,
                log_line=line.strip(),
            )
    return None


def by_signal(status: int | None) -> Death | None:
    """Explain an end by a signal; `None` when it was none."""
    if status is None or status >= 0:
        return None
    known = _SIGNALS.get(-status)
    if known is not None:
        return Death(status=status, asked=False, cause=known, heals=-status != signal.SIGILL)
    return Death(status=status, asked=False, cause=f"Ended by {_signal_name(-status)}, sent from outside llmgw")


def by_status(status: int | None) -> Death:
    """Explain an end of which the log tells nothing."""
    if status is None:
        text = "Ended; the exit status cannot be seen, as the engine was adopted from an earlier agent"
    elif status == 0:
        text = "Ended by itself with status 0, though nobody asked it to"
    else:
        text = f"Ended by itself with status {status}; its log gives no cause"
    return by_signal(status) or Death(status=status, asked=False, cause=text)


_SIGNALS: dict[int, str] = {
    signal.SIGKILL: "Killed by SIGKILL: by a person, or for want of memory (the kernel log tells)",
    signal.SIGILL: "Used an instruction this CPU lacks (SIGILL): the engine's build does not fit this machine",
    signal.SIGSEGV: "Crashed with a memory fault (SIGSEGV)",
    signal.SIGBUS: "Crashed reading a mapped file (SIGBUS): the weights changed or their disk failed meanwhile",
    signal.SIGABRT: "Aborted itself at an internal check (SIGABRT)",
    signal.SIGFPE: "Crashed on an arithmetic fault (SIGFPE)",
}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
