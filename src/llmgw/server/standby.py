"""What a standby does for others: requests that need the leader go there, and what gateways say here is told there."""

import asyncio
import hashlib
import hmac
from collections.abc import Sequence

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from llmgw.schema.demand import DemandReport
from llmgw.schema.errors import NoLeader, StoreUnavailable
from llmgw.schema.lease import LeaseStatus
from llmgw.server.demand import DemandBoard
from llmgw.server.fleet import Fleet
from llmgw.server.peers import FORWARDED_BY, Peers

LOOK_AGAIN_S = 1.5
"""How long a request waits for it to be known who leads: a standby reads the row twice a second."""
_LOOK_S = 0.05
RELAY_S = 1.0
"""How often demand is told; gateways say it each second, and it expires after three."""


class Standby:
    """This control plane's side towards the leader, while it does not lead itself."""

    def __init__(self, *, fleet: Fleet, board: DemandBoard, peers: Peers, name: str, holder: str) -> None:
        self.holder = holder
        """This process, as the lease row would name it."""
        self._fleet = fleet
        self._board = board
        self._peers = peers
        self._name = name

    async def forward(self, request: Request, body: bytes) -> Response:
        """Have the leader answer a request, with the caller's own token. Raises `NoLeader`.

        It is done once: a leader that has just lost the lease refuses instead of forwarding again.
        """
        status = self._fleet.leader_status()
        if FORWARDED_BY not in request.headers:
            status = await self._known_leader()
        if status.leader_address is None or status.leader_name is None or FORWARDED_BY in request.headers:
            raise NoLeader(
                "nothing was changed: no control plane leads right now", hint="one leads within seconds: try again then"
            )
        # As it came: names may hold slashes, and their encoding matters.
        raw = request.scope.get("raw_path")
        path = raw.decode("latin-1") if isinstance(raw, bytes) else request.url.path
        target = path + (f"?{request.url.query}" if request.url.query else "")
        answer = await self._peers.forward(
            status.leader_address,
            request.method,
            target,
            headers=request.headers,
            body=body,
            leader=status.leader_name,
        )
        if request.method != "GET":
            await self._read_changes()
        return Response(answer.body, answer.status, answer.headers)

    def take(self, report: DemandReport) -> None:
        """Take in what a gateway said at a control plane that stands by."""
        self._board.report(report)

    async def relay(self) -> None:
        """Tell the leader what gateways say here, each second and when requests begin to wait; until cancelled."""
        woken = asyncio.Event()
        end = self._board.held.subscribe(woken.set)
        try:
            while True:
                try:
                    async with asyncio.timeout(RELAY_S):
                        await woken.wait()
                except TimeoutError:
                    pass
                woken.clear()
                await self._tell(self._board.reports())
        finally:
            end()

    async def _known_leader(self) -> LeaseStatus:
        """Give who leads; while the lead is handed over that takes a moment to be known."""
        waited = 0.0
        while (status := self._fleet.leader_status()).leader_name is None and waited < LOOK_AGAIN_S:
            await asyncio.sleep(_LOOK_S)
            waited += _LOOK_S
        return status

    async def _tell(self, reports: Sequence[DemandReport]) -> None:
        status = self._fleet.leader_status()
        audit = self._board.audit.untold()
        if self._fleet.is_leader() or not reports or status.leader_address is None or not self._fleet.hash_key:
            return
        # Metrics stay: each control plane exports those of its own gateways. Names may be the same at two of them.
        told = [replace(report, gateway=f"{self._name}/{report.gateway}", metrics=(), audit=()) for report in reports]
        # Reports are the last of each gateway, told again or skipped as it comes; records of requests are told once.
        told[0] = replace(told[0], audit=audit)
        await self._peers.report(status.leader_address, told, secret=peer_secret(self._fleet.hash_key))

    async def _read_changes(self) -> None:
        """Read at once what was changed, so that who changed it finds it here."""
        try:
            await self._fleet.follow()
        except StoreUnavailable:
            return


def peer_secret(hash_key: bytes) -> str:
    """Give what one control plane proves to another: that it can read the cluster's store."""
    return hmac.new(hash_key, b"llmgw control plane", hashlib.sha256).hexdigest()
