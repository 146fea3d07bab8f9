"""`/backup`, `/restore` and resuming after it."""

import asyncio

import msgspec

from llmgw.core import backup
from llmgw.schema.admin.backup import Restored, Resumed
from llmgw.schema.backup import Backup
from llmgw.schema.errors import StoreError, StoreUnavailable
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.restore import resume
from llmgw.telemetry import log

MAX_BACKUP_BYTES = 256 * 1024 * 1024
"""As much as `ctl` reads; a fleet of 10,000 nodes, each with its facts, is below 100 MB."""

_TAG = "backup"
_log = log.get(__name__)


async def _backup(call: Call[Nothing, Nothing]) -> msgspec.Raw:
    context = call.context
    content = await context.store.dump()
    taken = await asyncio.to_thread(
        backup.seal, content, llmgw=context.version, taken_at=context.clock.now(), taken_by=context.config.name
    )
    # A log, not an event: a standby cannot write, and a backup is not to be refused for want of a leader.
    _log.warning("store.backed_up", actor=call.actor.id, epoch=content.epoch)
    return msgspec.Raw(await asyncio.to_thread(msgspec.json.encode, taken))


async def _restore(call: Call[Backup, Nothing]) -> Restored:
    if call.context.restore is None:
        raise StoreError("nothing can be restored here")
    return await call.context.restore(call.body, actor=call.actor.id)


async def _resume(call: Call[Nothing, Nothing]) -> Resumed:
    return Resumed(was_observing=await resume(call.context.fleet, call.context.clock, actor=call.actor.id))


ROUTES = (
    TypedRoute(
        method="GET",
        path="/backup",
        role=AdminRole.ADMIN,
        summary="Give the whole store as one backup, secrets included; a standby does so too",
        handler=_backup,
        answer=Backup,
        tag=_TAG,
        errors=(StoreUnavailable,),
    ),
    TypedRoute(
        method="POST",
        path="/restore",
        role=AdminRole.ADMIN,
        summary="Put a backup into this cluster, which must be new: no nodes, no models",
        handler=_restore,
        body=Backup,
        read=backup.read,
        max_body=MAX_BACKUP_BYTES,
        answer=Restored,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/control-planes/resume",
        role=AdminRole.ADMIN,
        summary="Order nodes again after a restore; a no-op when they are",
        handler=_resume,
        answer=Resumed,
        tag=_TAG,
    ),
)
