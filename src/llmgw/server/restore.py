"""Restoring a backup into a new cluster: everything or nothing, and nothing is ordered afterwards until a resume."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from llmgw.core.observing import OBSERVING_SETTING, unheard, written
from llmgw.ports import AppendEvent, Clock, DeleteJoinToken, FleetRows, PutReplica, PutSetting, ReplaceAll, Write
from llmgw.schema.admin.backup import Login, Restored
from llmgw.schema.backup import Backup, Content, Observing, Row
from llmgw.schema.errors import Conflict, NoLeader
from llmgw.schema.event import Event, Severity
from llmgw.schema.replica import Replica
from llmgw.server.fleet import Fleet
from llmgw.server.trust import CERTIFICATE_SETTING

EPOCH_S = 5.0
"""How long the epoch may take to be raised: the lease's thread does it at its next call, at most 1.5 s later."""
_LOOK_S = 0.05

Settings = Mapping[str, str]
Forward = Callable[[Content], Content]
Keep = Callable[[Settings, Settings], Settings]


class Restore:
    """The parts of the wiring that a restore needs.

    `forward` brings rows to the present schema; `keep` gives, of this cluster's settings and the backup's, those that
    must replace the backup's, and refuses what cannot work here; `first_secrets` makes what `bootstrap` makes.
    """

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        *,
        forward: Forward,
        keep: Keep,
        first_secrets: Callable[[], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._forward = forward
        self._keep = keep
        self._first_secrets = first_secrets

    async def __call__(self, backup: Backup, *, actor: str) -> Restored:
        """Restore. Raises `Conflict` where the cluster is not new, `InvalidInput` for a backup that does not fit."""
        fleet = self._fleet
        _refuse_used(fleet.rows, observing=fleet.observing is not None)
        before = fleet.settings
        content = await asyncio.to_thread(self._forward, backup.content)
        kept = self._keep(before, _settings(content))
        # First, so that no order can ever be sent with an epoch that agents of the lost cluster have obeyed already.
        await self._raise_epoch(content.epoch + 1)

        async def decide(rows: FleetRows) -> Sequence[Write]:
            _refuse_used(rows, observing=fleet.observing is not None)
            return self._writes(backup, content, kept)

        await fleet.change_slowly(decide)
        await self._first_secrets()
        logins = tuple(
            Login(id=token.id, name=token.name, role=token.role)
            for token in fleet.admin_tokens
            if token.revoked_at is None
        )
        return Restored(
            taken_at=backup.taken_at,
            taken_by=backup.taken_by,
            epoch=fleet.leader_status().epoch or 0,
            rows={name: len(rows) for name, rows in content.tables.items()},
            logins=logins,
            your_token_works=actor in {login.id for login in logins},
            restarts=_authority(fleet.settings) not in {None, _authority(before)},
        )

    async def _raise_epoch(self, at_least: int) -> None:
        fleet = self._fleet
        if not fleet.is_leader():
            raise NoLeader("nothing was restored: this control plane does not lead", hint="ask the one that leads")
        if (fleet.leader_status().epoch or 0) >= at_least:
            return
        fleet.raise_epoch(at_least)
        waited = 0.0
        while not fleet.is_leader() or (fleet.leader_status().epoch or 0) < at_least:
            if waited > EPOCH_S:
                raise NoLeader("nothing was restored: the epoch could not be raised", hint="try again")
            await asyncio.sleep(_LOOK_S)
            waited += _LOOK_S

    def _writes(self, backup: Backup, content: Content, kept: Settings) -> tuple[Write, ...]:
        now = self._clock.now()
        reason = "restored from a backup; its node has not been heard yet"
        replicas = [_replica(row) for row in content.tables.get("replicas", ())]
        message = f"the store was restored from a backup that {backup.taken_by} took at {backup.taken_at.isoformat()}"
        return (
            ReplaceAll(content=content),
            # One that was used since the backup would let somebody in once more.
            *(DeleteJoinToken(id=str(row["id"])) for row in content.tables.get("join_tokens", ())),
            *(PutReplica(replica=unheard(replica, reason, now)) for replica in replicas),
            *(PutSetting(name=name, value=value) for name, value in kept.items()),
            PutSetting(name=OBSERVING_SETTING, value=written(Observing(taken_at=backup.taken_at, since=now))),
            AppendEvent(event=Event(at=now, kind="store.restored", severity=Severity.WARNING, message=message)),
        )


async def resume(fleet: Fleet, clock: Clock, *, actor: str) -> bool:
    """Have the reconciler order and plan again; False when it did so already."""
    was = False

    def decide(_: FleetRows) -> tuple[Write, ...]:
        nonlocal was
        was = fleet.observing is not None
        if not was:
            return ()
        message = "the restored store was resumed: nodes are ordered again"
        event = Event(at=clock.now(), kind="store.resumed", severity=Severity.INFO, message=message, actor=actor)
        return PutSetting(name=OBSERVING_SETTING, value=""), AppendEvent(event=event)

    await fleet.change(decide)
    return was


def _authority(settings: Settings) -> str | None:
    return settings.get(CERTIFICATE_SETTING)


def _refuse_used(rows: FleetRows, *, observing: bool) -> None:
    """Nodes that are only observed came by themselves, and are taken in again afterwards."""
    if not rows.models and not rows.replicas and (observing or not rows.nodes):
        return
    parts = (
        ("node", [node.id for node in rows.nodes]),
        ("model", [model.name for model in rows.models]),
        ("replica", [replica.id for replica in rows.replicas]),
    )
    found = [f"{len(names)} {word}{'s' if len(names) > 1 else ''} ({_some(names)})" for word, names in parts if names]
    raise Conflict(
        f"nothing was restored: this cluster is not new, it has {', '.join(found)}",
        hint="restore into a control plane with a store of its own that is empty",
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")  # noqa: PLR2004 - as many as a line bears


def _settings(content: Content) -> Settings:
    return {str(row["id"]): str(row["value"]) for row in content.tables.get("settings", ())}


def _replica(row: Row) -> Replica:
    return msgspec.json.decode(str(row["body"]), type=Replica)
