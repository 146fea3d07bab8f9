"""Whether a ready engine still lives. Pure: it remembers what it saw and says when an engine must be ended.

Alive is what makes progress. A busy engine may answer nothing for minutes and is not dead; one that answers health
and works on requests without computing anything is.
"""

from enum import StrEnum

from llmgw.engines.progress import Progress
from llmgw.schema.value import Value

STUCK_S = 25.0
"""Seconds without any sign of work while work is there."""
STOPPED_S = 6.0
"""Seconds a process may be stopped by a signal: a debugger's or an operator's touch is shorter."""
DEAF_LOOKS = 3
"""Refused connections in a row of a live process that listened before."""
GAP_S = 10.0
"""Longer between two looks: the machine, or the agent, slept. What was remembered says nothing then."""
IDLE_CORES = 0.02
"""Cores an engine may use and still count as not working: our own questions cost it about 1 ms each."""


class Health(StrEnum):
    """How the engine's port took our question."""

    ANSWERED = "answered"
    SILENT = "silent"
    """Connected, no answer in time: what a busy engine does, and a frozen one."""
    REFUSED = "refused"


class Look(Value, frozen=True, kw_only=True):
    """One look at an engine."""

    at: float
    """Monotonic seconds."""
    stopped: bool
    """A signal holds its process."""
    health: Health
    cpu_s: float
    """Processor seconds of the whole group since its start."""
    progress: Progress | None = None
    """`None`: not told this time."""


class Watch(Value, frozen=True, kw_only=True):
    """What is remembered between two looks."""

    moved: Look | None = None
    """The last look at which the engine was idle or had moved."""
    running_at: float | None = None
    """When its process was last seen not stopped."""
    refusals: int = 0
    tells_progress: bool = False
    """The engine has told its counters before: then silence about them means that it does not work."""
    looked_at: float | None = None


def judge(watch: Watch, look: Look) -> tuple[Watch, str | None]:
    """Take one look into account. Gives what to remember, and why the engine must be ended, in words."""
    if watch.looked_at is not None and look.at - watch.looked_at > GAP_S:
        watch = Watch(tells_progress=watch.tells_progress)
    tells_progress = watch.tells_progress or look.progress is not None
    moved = look if watch.moved is None or _moved(watch.moved, look, tells_progress=tells_progress) else watch.moved
    watch = Watch(
        moved=moved,
        running_at=look.at if not look.stopped or watch.running_at is None else watch.running_at,
        refusals=watch.refusals + 1 if look.health is Health.REFUSED else 0,
        tells_progress=tells_progress,
        looked_at=look.at,
    )
    return watch, _verdict(watch, moved, look)


def _verdict(watch: Watch, moved: Look, look: Look) -> str | None:
    stopped_s = look.at - watch.running_at if watch.running_at is not None else 0.0
    if stopped_s >= STOPPED_S:
        return f"the engine's process was stopped by a signal and did not go on for {stopped_s:.0f} s"
    if watch.refusals >= DEAF_LOOKS:
        return "the engine's process lives but no longer listens on its port"
    still_s = look.at - moved.at
    if still_s < STUCK_S:
        return None
    if look.progress is None:
        return f"the engine did not answer and did not work for {still_s:.0f} s"
    open_requests = look.progress.working + look.progress.waiting
    return f"the engine did not work on its open requests ({open_requests}) for {still_s:.0f} s"


def _moved(since: Look, look: Look, *, tells_progress: bool) -> bool:
    """True unless there was work, or no answer, and no trace of computing since that look."""
    used = (look.cpu_s - since.cpu_s) / max(look.at - since.at, 1e-9)
    if used > IDLE_CORES:
        return True
    if look.health is not Health.ANSWERED:
        return False
    if look.progress is None:
        return not tells_progress
    return since.progress is None or look.progress.moved_since(since.progress)
