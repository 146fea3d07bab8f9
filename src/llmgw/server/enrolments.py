"""Lets machines join by token, renews their certificates, and says whose are still taken."""

from typing import Protocol

from msgspec.structs import replace

from llmgw.core.trust import Refusal, judge_certificate, judge_token
from llmgw.link.identity import Holder
from llmgw.ports import AppendEvent, Clock, FleetRows, PutEnrolment, PutJoinToken, Write
from llmgw.schema.errors import InvalidInput, LlmgwError, StoreUnavailable
from llmgw.schema.event import Severity
from llmgw.schema.identity import Enrolment, Identity, JoinToken, Part
from llmgw.schema.join import Declined, Introduction, Join, Joined, Renew
from llmgw.schema.link import Hello, Refused
from llmgw.server.fleet import Fleet
from llmgw.server.identity import hash_secret, public_id, same_secret
from llmgw.server.services.join_tokens import NAME, event
from llmgw.server.trust import ServerTrust

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Directory(Protocol):
    """Where agents reach the control planes."""

    def leader_address(self) -> str | None:
        """Give the leader's address; `None` when it is not known."""


class Enrolments:
    """The join path's side of a control plane, and the gate of its agents' and gateways' listeners."""

    def __init__(self, *, fleet: Fleet, clock: Clock, trust: ServerTrust, directory: Directory) -> None:
        self._fleet = fleet
        self._clock = clock
        self._trust = trust
        self._directory = directory

    # Joining -------------------------------------------------------------------------------------

    def introduction(self) -> Introduction | None:
        """Give the authority."""
        return Introduction(authority=self._trust.authority.certificate)

    async def join(self, request: Join) -> Joined | Declined | Refused:
        """Take a machine in whose token is right. Token and enrolment change together, or neither."""
        if not self._fleet.is_leader():
            return Refused(reason="this control plane does not lead", leader=self._directory.leader_address())
        wanted = Identity(part=request.part, name=request.name)
        if NAME.fullmatch(wanted.name) is None:
            return Declined(reason=f"{wanted.name!r} is no name")
        now = self._clock.now()
        refusals: list[Refusal] = []
        certificate = ""

        def decide(_: FleetRows) -> tuple[Write, ...]:
            nonlocal certificate
            refusals.clear()
            token = self._token(request.token)
            refusal = judge_token(token, wanted, now)
            if token is None or refusal is not None:
                refusals.append(refusal or Refusal(reason="there is no such join token"))
                return () if token is None or refusal is None or not refusal.void else self._void(token, wanted)
            # Before the token is spent: a request that cannot be certified costs nothing.
            hosts = _hosts(wanted, token)
            certificate = self._trust.authority.certify(request.request, wanted, hosts=hosts, now=now)
            return (
                PutJoinToken(token=replace(token, spent_at=now)),
                PutEnrolment(enrolment=Enrolment(part=wanted.part, name=wanted.name, joined_at=now, hosts=token.hosts)),
                self._event("join.joined", f"{wanted} joined with token {token.id}", wanted, actor=token.created_by),
            )

        try:
            await self._fleet.change(decide)
        except InvalidInput as error:
            return Declined(reason=error.message)
        except LlmgwError as error:
            return Refused(reason=error.message, leader=self._directory.leader_address())
        if refusals:
            return Declined(reason=refusals[0].reason)
        secret = self._trust.secret if wanted.part is Part.SERVER else None
        return Joined(certificate=certificate, authority_secret=secret)

    async def renew(self, request: Renew, holder: Holder) -> Joined | Declined | Refused:
        """Give the holder of a certificate that is still taken another one."""
        if not self._fleet.loaded:
            return Refused(reason="this control plane has not read its store yet")
        if not self._fleet.is_leader():
            # Who was removed a moment ago, or while the store is away here, would be let into doors for a week more.
            try:
                await self._fleet.follow()
            except StoreUnavailable as error:
                return Refused(reason=error.message, leader=self._directory.leader_address())
        reason = self.judge(holder)
        if reason is not None:
            return Declined(reason=reason)
        who = holder.identity
        hosts = _hosts(who, self._fleet.enrolment(who))
        try:
            certificate = self._trust.authority.certify(request.request, who, hosts=hosts, now=self._clock.now())
        except InvalidInput as error:
            return Declined(reason=error.message)
        return Joined(certificate=certificate)

    # The gate ------------------------------------------------------------------------------------

    def refuse(self, hello: Hello, holder: Holder | None) -> str | None:
        """Say why an agent may not connect; `None`: it may."""
        if holder is None:
            return "agents of this cluster show a certificate: run llmgw agent join on this node"
        if holder.identity != Identity(part=Part.NODE, name=hello.node):
            return f"the certificate is of {holder.identity}, not of node {hello.node}"
        return self.judge(holder)

    def judge(self, holder: Holder) -> str | None:
        """Say why the holder's certificate is no longer taken; `None`: it is."""
        if not self._fleet.loaded:
            return "this control plane has not read its store yet"
        return judge_certificate(self._fleet.enrolment(holder.identity), holder.identity, holder.begins)

    def _token(self, secret: str) -> JoinToken | None:
        wanted, presented = public_id(secret), hash_secret(self._fleet.hash_key, secret)
        for token in self._fleet.join_tokens:
            if token.id == wanted and same_secret(presented, token.hash):
                return token
        return None

    def _void(self, token: JoinToken, wanted: Identity) -> tuple[Write, ...]:
        told = f"join token {token.id} for {token.part} {token.name} was presented by {wanted}: it is void"
        return (
            PutJoinToken(token=replace(token, spent_at=self._clock.now())),
            event(self._clock, "join.stolen", told, wanted, actor=None, severity=Severity.WARNING),
        )

    def _event(self, kind: str, told: str, who: Identity, *, actor: str) -> AppendEvent:
        return event(self._clock, kind, told, who, actor=actor)


def _hosts(who: Identity, source: JoinToken | Enrolment | None) -> tuple[str, ...]:
    """Give what a certificate says its holder is reached by: only gateways show theirs to people."""
    if who.part is not Part.GATEWAY:
        return ()
    return (*LOOPBACK, *(source.hosts if source is not None else ()))
