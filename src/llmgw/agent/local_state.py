"""What an agent keeps on disk: its node's id, the orders it has obeyed, its shards, the control planes it knows.

    node-id              chosen once
    epoch.json, epoch-2.json   highest epoch, holder and generation obeyed: the newer of the two
    servers.json         control planes learnt from the last one that took us on
    shards/<id>.json     one per shard, with its engine's key; gone when the shard is (ids are checked in obeyed.py)
    digests.json         of weights, by path and stamp: files that stay the same are not read again
    logs/<id>/<n>.log    one per start
    door.toml, door.json, door-process.json, door.sock

All is written atomically, synced and private (0600 in a folder of 0700). On a full disk the old files stay, what is new
is kept in memory and written once there is room; only a start is refused then, for nobody could adopt its engine.
"""

import fcntl
import hashlib
import os
import socket
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from llmgw.agent.digests import FileDigest
from llmgw.agent.folder import Folder
from llmgw.agent.obeyed import Obeyed
from llmgw.agent.obeyed_file import ObeyedFile
from llmgw.agent.process_group import Identity
from llmgw.schema.desired import DesiredShard
from llmgw.schema.errors import Conflict, InvalidInput
from llmgw.schema.report import Death
from llmgw.schema.value import Value
from llmgw.telemetry import log

T = TypeVar("T")
_log = log.get(__name__)


class ShardRecord(Value, frozen=True, kw_only=True):
    """One shard's start, enough to adopt its engine or to tell how it ended."""

    desired: DesiredShard
    started_at: datetime
    identity: Identity | None = None
    """`None`: the engine was about to be started."""
    endpoint: str | None = None
    """Known once the engine listens."""
    engine_version: str | None = None
    ready: bool = False
    slots: int | None = None
    context: int | None = None
    stopping: bool = False
    """It was asked to end: a second time would end it at once."""
    death: Death | None = None


class LocalState:
    """The agent's folder. Reading and writing are small and local, so they are done in place."""

    def __init__(self, data_dir: str) -> None:
        self.root = Path(data_dir)
        self.owner = hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:12]
        """Marks what this folder's agents start, whichever of them did."""
        self.door_name = f"door-{self.owner}"
        """Name of the door's process group, beside those of shards."""
        self._folder = Folder(self.root)
        self._obeyed = ObeyedFile(self.root)
        self._unsaved_obeyed: Obeyed | None = None
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder and take its lock. Raises `Conflict` when another agent uses it, `OSError` without room."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.root / "shards").mkdir(exist_ok=True, mode=0o700)
        lock = os.open(self.root / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise Conflict(
                f"another agent runs with the data folder {self.root}",
                hint="end it first, or give this one a data_dir of its own",
            ) from error
        self._lock = lock
        try:
            self._obeyed.make()
        except OSError as error:
            _log.warning("state.no_epoch_file", error=str(error))

    def retry(self) -> None:
        """Write what could not be written before."""
        if self._unsaved_obeyed is not None:
            self.save_obeyed(self._unsaved_obeyed)
        self._folder.retry()

    def problem(self) -> str | None:
        """Say in words what is wrong with the folder's disk; `None` when nothing is."""
        return self._folder.problem()

    def close(self) -> None:
        """Let the lock go."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def node_id(self, configured: str | None) -> str:
        """Give the node's id, chosen at the first start. Raises `InvalidInput` when the configuration changed it."""
        path = self.root / "node-id"
        if not path.exists():
            chosen = configured or socket.gethostname()
            self._folder.keep_text("node-id", chosen + "\n")
            return chosen
        kept = path.read_text().strip()
        if configured not in (None, kept):
            raise InvalidInput(
                f"node_id = {configured!r}, but this node joined as {kept!r}",
                hint=f"a node's id never changes; to join as another node, stop its engines and remove {path}",
                field="node_id",
            )
        return kept

    def obeyed(self) -> Obeyed:
        """Read which orders were obeyed."""
        return self._obeyed.read()

    def save_obeyed(self, obeyed: Obeyed) -> None:
        """Remember it for good: synced to disk before anything is done about the order.

        That needs no room, unless the disk was full before this node ever obeyed: then it is kept until there is.
        """
        try:
            self._obeyed.save(obeyed)
        except OSError as error:
            if self._unsaved_obeyed is None:
                _log.error("state.epoch_unsaved", epoch=obeyed.epoch, error=str(error))
            self._unsaved_obeyed = obeyed
        else:
            self._unsaved_obeyed = None

    def servers(self) -> tuple[str, ...]:
        """Read the learnt control planes."""
        return self._folder.read("servers.json", tuple[str, ...]) or ()

    def save_servers(self, servers: tuple[str, ...]) -> None:
        """Remember learnt control planes."""
        self._folder.keep("servers.json", servers)

    def digests(self) -> dict[str, FileDigest]:
        """Read the digests of weights that were made."""
        return self._folder.read("digests.json", dict[str, FileDigest]) or {}

    def save_digests(self, digests: dict[str, FileDigest]) -> None:
        """Remember them: reading all weights again takes hours. Raises `OSError`."""
        self._folder.write("digests.json", digests)

    def records(self) -> tuple[ShardRecord, ...]:
        """Read all shards."""
        names = sorted(path.name for path in (self.root / "shards").glob("*.json"))
        found = (self._folder.read(f"shards/{name}", ShardRecord) for name in names)
        return tuple(record for record in found if record is not None)

    def save_record(self, record: ShardRecord) -> None:
        """Write one shard now. Raises `OSError`."""
        self._folder.write(f"shards/{record.desired.id}.json", record)

    def keep_record(self, record: ShardRecord) -> None:
        """Write one shard, now or as soon as there is room."""
        self._folder.keep(f"shards/{record.desired.id}.json", record)

    def remove_record(self, shard: str) -> None:
        """Forget one shard."""
        self._folder.forget(f"shards/{shard}.json")

    def log_path(self, shard: str, attempt: int) -> Path:
        """Where the log of one start lies."""
        return self.root / "logs" / shard / f"{attempt}.log"

    def door_process(self) -> Identity | None:
        """Read which process the door is."""
        return self._folder.read("door-process.json", Identity)

    def save_door_process(self, identity: Identity | None) -> None:
        """Remember which process the door is."""
        if identity is None:
            self._folder.forget("door-process.json")
        else:
            self._folder.keep("door-process.json", identity)

    def read_private(self, name: str, kind: type[T]) -> T | None:
        """Read a file that another process of ours wrote into the folder."""
        return self._folder.read(name, kind)
