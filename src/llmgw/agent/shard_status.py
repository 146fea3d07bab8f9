"""Where one shard stands: its record on disk, its phase, what it is doing. Every change is saved and told."""

import asyncio
from collections.abc import Callable

import msgspec

from llmgw.agent.local_state import LocalState, ShardRecord
from llmgw.agent.obey import Running
from llmgw.agent.process_group import Identity
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death, ShardReport


class ShardStatus:
    """One shard's standing, changed by its engine run and read by everybody."""

    def __init__(self, record: ShardRecord, state: LocalState, changed: Callable[[], None]) -> None:
        self.record = record
        self.phase = ShardPhase.DEAD if record.death is not None else ShardPhase.STARTING
        self.pid: int | None = None
        """The leader's pid while it runs."""
        self.adopted = record.identity is not None
        self.gone = False
        """True once it ended as asked: nothing is left to report."""
        self.settled = asyncio.Event()
        """Set once it is known what became of an engine that an earlier agent started."""
        self._doing: str | None = None
        self._state = state
        self._changed = changed

    @property
    def running(self) -> Running:
        """What the comparison with the desired set needs."""
        return Running(id=self.record.desired.id, attempt=self.record.desired.attempt, phase=self.phase)

    def report(self) -> ShardReport:
        """Say what the control plane should know."""
        record = self.record
        return ShardReport(
            id=record.desired.id,
            attempt=record.desired.attempt,
            phase=self.phase,
            model=record.desired.model,
            engine=record.desired.profile.engine,
            endpoint=record.endpoint,
            pid=self.pid,
            engine_version=record.engine_version,
            started_at=record.started_at,
            slots=record.slots,
            context=record.context,
            adopted=self.adopted,
            progress=self._doing if self.phase is not ShardPhase.READY else None,
            death=record.death,
        )

    def started(self, identity: Identity) -> None:
        """Its leader runs."""
        self.pid = identity.pid
        self.save(identity=identity)
        self._changed()

    def enter(self, phase: ShardPhase) -> None:
        """Go into a phase; what it was doing is over."""
        self.phase = phase
        self._doing = None
        self.settled.set()
        self._changed()

    def say(self, doing: str | None) -> None:
        """Tell what it is doing, when that is new."""
        if doing is not None and doing != self._doing:
            self._doing = doing
            self._changed()

    def begin(self) -> None:
        """Have the start on disk before it begins. Raises `OSError`."""
        self._state.save_record(self.record)

    def save(self, **changes: object) -> None:
        """Change the record, on disk too as soon as there is room."""
        self.record = msgspec.structs.replace(self.record, **changes)
        self._state.keep_record(self.record)

    def died(self, death: Death) -> None:
        """Keep a death nobody asked for until it is forgotten or replaced."""
        self.pid = None
        self.save(death=death)
        self.enter(ShardPhase.DEAD)

    def ended(self) -> None:
        """Nothing is left of it, as asked."""
        self.pid = None
        self.forget()
        self.gone = True
        self.enter(ShardPhase.DEAD)

    def forget(self) -> None:
        """Drop the record."""
        self._state.remove_record(self.record.desired.id)
