"""A control plane's working copy over a memory store, with a lease held by hand: what services and pages stand on."""

from datetime import UTC, datetime

import msgspec

from llmgw.core.lease import FIRST_EPOCH
from llmgw.ports import PutAdminToken, PutNode, PutReplica, PutSetting, PutStatus
from llmgw.schema.errors import NotFound
from llmgw.schema.key import AdminRole, AdminToken
from llmgw.schema.lease import Fence, LeaseRow, LeaseStatus, Standing
from llmgw.schema.link import LogReply
from llmgw.schema.model import Model, ModelStatus, Profile
from llmgw.schema.node import Host, Node, NodeFacts
from llmgw.schema.plan import Allocation, Claim
from llmgw.schema.replica import Replica, ReplicaState, Shard, ShardPhase
from llmgw.schema.report import Load, ShardReport
from llmgw.schema.weights import Weights
from llmgw.server.demand import DemandBoard
from llmgw.server.fleet import HASH_KEY_SETTING, Fleet
from llmgw.server.identity import SecretKind, hash_secret, new_secret, public_id
from llmgw.server.live import Live, LiveNodes
from llmgw.server.observe import Observer, Resolved
from llmgw.store.memory import MemoryLeaseStore, MemoryStore
from llmgw.testing.clock import FakeClock

HASH_KEY = bytes(range(32))
GIB = 1024**3
CONTEXT = 4096
"""What the pretended adapter decides for a model that names no context."""


class HandLease:
    """A lease that is taken and lost when told."""

    def __init__(self, rows: MemoryLeaseStore) -> None:
        self._rows = rows
        self._epoch = FIRST_EPOCH - 1
        self._leading = False
        self.other: str | None = None

    def take(self) -> None:
        """Lead from now on, in a new epoch."""
        self._epoch += 1
        self._leading, self.other = True, None
        row = LeaseRow(
            holder="hroom",
            epoch=self._epoch,
            beat=1,
            released=False,
            name="control-1",
            address="http://127.0.0.1:8800",
            renewed_at=datetime(2026, 1, 2, tzinfo=UTC),
        )
        self._rows.take(self._rows.read(), row)

    def lose(self, other: str | None = None) -> None:
        """Lead no longer; `other` is who does instead."""
        self._leading, self.other = False, other

    def raise_epoch(self, at_least: int) -> None:
        """Lead in that epoch or a later one, if leading."""
        if self._leading and self._epoch < at_least:
            self._epoch = at_least - 1
            self.take()

    def step_down(self, for_s: float) -> None:
        """Lead no longer; it is taken again when told, however long `for_s` is."""
        del for_s
        self.lose()

    def is_leader(self) -> bool:
        """True while held."""
        return self._leading

    def fence(self) -> Fence | None:
        """Give the fence of the epoch held."""
        return Fence(epoch=self._epoch, holder="hroom") if self._leading else None

    def status(self) -> LeaseStatus:
        """Say who leads."""
        if self._leading:
            return LeaseStatus(
                standing=Standing.LEADING,
                epoch=self._epoch,
                holder="hroom",
                leader_name="control-1",
                renew_age_s=0.4,
            )
        return LeaseStatus(standing=Standing.STANDING_BY, epoch=self._epoch, leader_name=self.other)


class HandLogs:
    """Logs by shard id; a shard without one has an agent that does not answer."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def read_log(self, shard: str, *, node: str, attempt: int | None, tail_bytes: int) -> LogReply:
        """Give the end of a log."""
        if shard not in self.texts:
            raise NotFound(f"the agent of {node} is not connected")
        return LogReply(id=1, text=self.texts[shard][-tail_bytes:], attempt=attempt or 1)


class ControlRoom:
    """Leads at once. `await room.open()` before use."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.lease = HandLease(self.store.lease_store())
        self.live = LiveNodes()
        self.board = DemandBoard(self.clock)
        self.logs = HandLogs()
        self.fleet = Fleet(
            store=self.store,
            clock=self.clock,
            lease=self.lease,
            observer=Observer(_resolve),
            live=self.live,
            demand=self.board,
            logs=self.logs,
        )

    async def open(self) -> None:
        """Take the lease and read the store."""
        self.lease.take()
        await self.fleet.load()
        await self.fleet.write([PutSetting(name=HASH_KEY_SETTING, value=HASH_KEY.hex())])

    async def token(self, role: AdminRole) -> str:
        """Make an admin token; gives its secret."""
        secret = new_secret(SecretKind.ADMIN_TOKEN)
        token = AdminToken(
            id=public_id(secret),
            hash=hash_secret(HASH_KEY, secret),
            name=f"the {role}",
            role=role,
            created_at=self.clock.now(),
        )
        await self.fleet.write([PutAdminToken(token=token)])
        return secret

    async def revoke(self, secret: str) -> None:
        """Revoke an admin token."""
        token = next(token for token in self.fleet.admin_tokens if token.id == public_id(secret))
        await self.fleet.write([PutAdminToken(token=msgspec.structs.replace(token, revoked_at=self.clock.now()))])

    async def put_node(self, node_id: str = "n1", **changes: object) -> Node:
        """Register a node of 8 cores and 16 GiB; `changes` are to its facts."""
        host = Host(os="Debian 12", kernel="6.1", machine="x86_64", cores_usable=8.0)
        facts = NodeFacts(
            hostname=node_id,
            address="127.0.0.1",
            place=f"boot-{node_id}:4026531840",
            agent_version="0.1.0",
            host=host,
            memory_bytes=16 * GIB,
        )
        facts = msgspec.structs.replace(facts, **changes)
        node = Node(id=node_id, facts=facts, registered_at=self.clock.now())
        await self.fleet.write([PutNode(node=node)])
        return node

    async def put_replica(
        self,
        replica_id: str,
        model: str,
        *,
        node: str = "n1",
        state: ReplicaState = ReplicaState.READY,
        **changes: object,
    ) -> Replica:
        """Store a replica of one shard that holds 2 cores and 1 GiB; `changes` are to the replica."""
        shard = Shard(
            id=f"{replica_id}.0",
            rank=0,
            allocation=Allocation(node=node, cores=2.0, memory_bytes=GIB),
            key="le_ENGINEKEYnobodymaysee",
            phase=ShardPhase.READY if state is ReplicaState.READY else ShardPhase.STARTING,
            endpoint="http://127.0.0.1:41001",
            pid=4242,
        )
        now = self.clock.now()
        replica = Replica(
            id=replica_id, model=model, revision=1, state=state, shards=(shard,), created_at=now, state_since=now
        )
        replica = msgspec.structs.replace(replica, **changes)
        await self.fleet.write([PutReplica(replica=replica)])
        return replica

    async def put_status(self, status: ModelStatus) -> None:
        """Store what became of a model."""
        await self.fleet.write([PutStatus(status=status)])

    def hear(self, node: Node, *, reports: tuple[ShardReport, ...] = (), load: Load | None = None) -> None:
        """Have the node's agent connected and saying this."""
        now = self.clock.monotonic()
        self.live.put(
            Live(
                node=node.id,
                stream=1,
                facts=node.facts,
                reports=reports,
                generation=1,
                connected=True,
                heard_at=now,
                load=load,
                load_at=None if load is None else now,
            )
        )


def _resolve(model: Model, weights: Weights | None, cores_usable: float | None) -> Resolved:
    del weights, cores_usable
    profile: Profile = msgspec.structs.replace(model.profile, context=model.profile.context or CONTEXT)
    return Resolved(profile=profile, claim=Claim())
