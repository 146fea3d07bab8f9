"""Process groups: one leader and all that descend from it, started, adopted, watched and killed as a whole.

Where we may make control groups (version 2), a group of our own holds them, whatever sessions they move to.
Elsewhere they are found by process group, session and two marks in their environment: the group's name, and the
agent that started it, so that several agents on one machine never touch each other's.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from llmgw.agent import logs, off_loop
from llmgw.hardware import proc
from llmgw.hardware.cgroup import ControlGroup, group_path
from llmgw.schema.value import Value
from llmgw.telemetry import log

MARK, OWNER_MARK = "LLMGW_SHARD", "LLMGW_AGENT"
_WARN_AFTER_S = 5.0
_MAX_PAUSE_S = 0.5
_REMOVE_S = 1.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_log = log.get(__name__)


class Identity(Value, frozen=True, kw_only=True):
    """Which processes a group is, valid for ever: pids are reused, a pid with boot id and start time is not."""

    name: str
    """Value of the mark in the environment, unique among all groups."""
    pid: int
    start_ticks: int
    boot_id: str
    cgroup: str | None = None
    owner: str | None = None
    """Value of the owner's mark."""


class ProcessGroup:
    """A group whose leader runs, or ran when this object was made."""

    def __init__(self, identity: Identity, pidfd: int, child: "subprocess.Popen[bytes] | None") -> None:
        self.identity = identity
        self._pidfd = pidfd
        self._child = child
        self._ended = asyncio.Event()
        self._status: int | None = None
        asyncio.get_running_loop().add_reader(pidfd, self._on_end)

    @property
    def adopted(self) -> bool:
        """True when an earlier agent started it: its exit status cannot be seen."""
        return self._child is None

    async def feed(self, data: bytes) -> None:
        """Write the leader's standard input whole and close it."""
        stdin = self._child.stdin if self._child is not None else None
        if stdin is not None:
            await off_loop.call(lambda: _write_all(stdin, data), name="feed")

    async def ended(self) -> int | None:
        """Wait for the leader's end. Gives its status as Popen does, `None` when it cannot be seen."""
        await self._ended.wait()
        return self._status

    def terminate(self) -> None:
        """Ask the leader, and only it, to end."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    def stopped(self) -> bool:
        """True while a signal holds the leader."""
        stat = proc.read_stat(self.identity.pid)
        return stat is not None and stat.stopped

    def cpu_s(self) -> float:
        """Processor seconds of all members."""
        return sum(stat.cpu_ticks for stat in self._stats()) / _TICKS_PER_S

    def resident_bytes(self) -> int:
        """Memory that all members have touched; what they share is counted for each."""
        return sum(stat.resident_pages for stat in self._stats()) * _PAGE_BYTES

    async def destroy(self) -> None:
        """Kill every member, and return once none is left."""
        await destroy(self.identity, leader_known=True)

    def close(self) -> None:
        """Stop watching. The processes are left as they are."""
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._child is not None and self._child.returncode is None:
            # Left running on purpose: Popen would warn of it when it is collected.
            self._child.returncode = 0

    def _stats(self) -> list[proc.ProcessStat]:
        pids = _inside(self.identity) or _by_session(self.identity.pid)
        stats = (proc.read_stat(pid) for pid in pids)
        return [stat for stat in stats if stat is not None]

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._status = self._child.poll() if self._child is not None else _reap(self.identity.pid)
        self._ended.set()


def start(
    name: str, argv: Sequence[str], env: Mapping[str, str], *, owner: str, log_path: Path, cgroup_mount: str | None
) -> ProcessGroup:
    """Start a leader in a session and, where possible, a control group of its own. Raises `OSError`.

    It waits for its standard input, see `feed`: until then it has no descendants, so all of them are in the group.
    """
    output = logs.open_log(log_path)
    try:
        child = subprocess.Popen(
            argv,
            env={**_inherited(), **env, MARK: name, OWNER_MARK: owner},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)
    stat = proc.read_stat(child.pid)
    assert stat is not None, "our child stays at least a zombie until we wait for it"  # noqa: S101 - for the type checker
    identity = Identity(
        name=name,
        pid=child.pid,
        start_ticks=stat.start_ticks,
        boot_id=proc.boot_id(),
        cgroup=_enclose(cgroup_mount, name, child.pid),
        owner=owner,
    )
    return ProcessGroup(identity, os.pidfd_open(child.pid), child)


def adopt(identity: Identity) -> ProcessGroup | None:
    """Take over a group an earlier agent started; `None` when its leader is gone."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    # Only now: what the descriptor names cannot be reused between looking and holding.
    if is_leader_alive(identity):
        return ProcessGroup(identity, pidfd, None)
    os.close(pidfd)
    return None


def is_leader_alive(identity: Identity) -> bool:
    """True while this very leader runs; a zombie does not."""
    if identity.boot_id != proc.boot_id():
        return False
    stat = proc.read_stat(identity.pid)
    if stat is None or stat.gone or stat.start_ticks != identity.start_ticks:
        return False
    return identity.cgroup is None or identity.pid in ControlGroup(identity.cgroup).members()


def leftover(name: str, *, owner: str, cgroup_mount: str | None) -> Identity:
    """Name a group whose leader is not known: its members are found by control group and marks alone."""
    cgroup = group_path(cgroup_mount, name)
    return Identity(name=name, pid=0, start_ticks=0, boot_id=proc.boot_id(), cgroup=cgroup, owner=owner)


def owned(owner: str) -> frozenset[str]:
    """Give the names of all groups of this owner that have a living process."""
    marks = (proc.environment(stat.pid) for stat in proc.processes() if not stat.gone)
    return frozenset(found[MARK] for found in marks if MARK in found and found.get(OWNER_MARK) == owner)


async def destroy(identity: Identity, *, leader_known: bool) -> None:
    """Kill every member, and return once none is left. Members of another boot are gone."""
    if identity.boot_id != proc.boot_id():
        return
    group = ControlGroup(identity.cgroup) if identity.cgroup is not None else None
    waited, pause, told = 0.0, 0.005, False
    while True:
        if group is not None:
            group.kill()
        left = members(identity, leader_known=leader_known)
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, _MAX_PAUSE_S)
        if waited > _WARN_AFTER_S and not told:
            told = True
            _log.error("process.unkillable", name=identity.name, pids=sorted(left))
    if group is not None:
        await _remove(group)


def members(identity: Identity, *, leader_known: bool) -> frozenset[int]:
    """Give the pids that belong to the group, zombies left out.

    `leader_known`: the pid has been the leader's all along, so it also names its process group and session. Without
    it, only the control group and the mark tell, as the pid may be somebody else's by now.
    """
    found = _inside(identity) | _by_marks(identity)
    return found | _by_session(identity.pid) if leader_known else found


def survey(identities: Iterable[Identity]) -> dict[str, list[proc.ProcessStat]]:
    """Read the members of several groups by name, with one look over all processes at most.

    Zombies are among those that are found by session. Each group's leader must be known to have lived all along.
    """
    found: dict[str, list[proc.ProcessStat]] = {}
    by_session: dict[int, list[proc.ProcessStat]] = {}
    for identity in identities:
        pids = _inside(identity)
        if pids:
            stats = (proc.read_stat(pid) for pid in pids)
            found[identity.name] = [stat for stat in stats if stat is not None]
        else:
            found[identity.name] = by_session.setdefault(identity.pid, [])
    for stat in proc.processes() if by_session else ():
        for leader in {stat.group, stat.session} & by_session.keys():
            by_session[leader].append(stat)
    return found


def reap_strays(known: Iterable[int]) -> None:
    """Wait for ended processes that became ours because their parents died (we are a subreaper).

    Children that somebody here waits for are left alone: leaders by `known`, others by being in our own session.
    """
    leaders, own_session, me = frozenset(known), os.getsid(0), os.getpid()
    for stat in list(proc.processes()):
        if stat.gone and stat.parent == me and stat.pid not in leaders and stat.session != own_session:
            _reap(stat.pid)


async def _remove(group: ControlGroup) -> None:
    for _ in range(20):
        if group.remove():
            return
        await asyncio.sleep(_REMOVE_S / 20)
    _log.warning("process.group_left", cgroup=group.path)


def _inside(identity: Identity) -> frozenset[int]:
    return ControlGroup(identity.cgroup).members() if identity.cgroup is not None else frozenset()


def _by_session(leader: int) -> frozenset[int]:
    return frozenset(stat.pid for stat in proc.processes() if not stat.gone and leader in (stat.group, stat.session))


def _by_marks(identity: Identity) -> frozenset[int]:
    alive = (stat.pid for stat in proc.processes() if not stat.gone and stat.pid != os.getpid())
    return frozenset(pid for pid in alive if _is_marked(proc.environment(pid), identity))


def _is_marked(environment: Mapping[str, str], identity: Identity) -> bool:
    if environment.get(MARK) != identity.name:
        return False
    return identity.owner is None or environment.get(OWNER_MARK) == identity.owner


def _enclose(mount: str | None, name: str, pid: int) -> str | None:
    group = ControlGroup.create(mount, name) if mount is not None else None
    if group is None:
        return None
    if group.add(pid):
        return group.path
    group.remove()
    return None


def _inherited() -> dict[str, str]:
    """Our own environment without what is llmgw's: secrets come by environment."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LLMGW_")}


def _write_all(stdin: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError), stdin:  # it may have ended already; its status tells
        stdin.write(data)


def _reap(pid: int) -> int | None:
    """Wait for an ended child. `None` when it is not our child: then its parent reaps it."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None
