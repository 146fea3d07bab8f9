"""Join tokens: each lets one machine in, once, within a quarter of an hour. And the end of a machine's trust."""

import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509

from llmgw.core.trust import TOKEN_LIFE, outlived
from llmgw.link.join import Ticket
from llmgw.link.pin import pin_of
from llmgw.ports import AppendEvent, Clock, DeleteEnrolment, DeleteJoinToken, FleetRows, PutJoinToken, Write
from llmgw.schema.admin.join_token import CreatedJoinToken, CreateJoinToken
from llmgw.schema.errors import Conflict, InvalidInput, NotFound
from llmgw.schema.event import Event, Severity
from llmgw.schema.identity import Identity, JoinToken, Part
from llmgw.server.fleet import Fleet
from llmgw.server.identity import SecretKind, hash_secret, new_secret, public_id
from llmgw.server.trust import CERTIFICATE_SETTING

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LONGEST_HOST = 253


async def create(fleet: Fleet, clock: Clock, request: CreateJoinToken, *, actor: str) -> CreatedJoinToken:
    """Make a join token. Raises `InvalidInput` for names that are none, `Conflict` where there is no authority."""
    if NAME.fullmatch(request.name) is None:
        raise InvalidInput(
            f"{request.name!r} is no name: letters, digits, dots, dashes and underscores, 63 at most", field="name"
        )
    _check_hosts(request.part, request.hosts)
    secret, now = new_secret(SecretKind.JOIN_TOKEN), clock.now()
    found = Identity(part=request.part, name=request.name)
    token_id, expires_at = public_id(secret), now + TOKEN_LIFE

    # Decided while leading: only then are hash key and authority there for certain.
    def decide(_: FleetRows) -> tuple[Write, ...]:
        _authority(fleet)
        token = JoinToken(
            id=token_id,
            hash=hash_secret(fleet.hash_key, secret),
            part=request.part,
            name=request.name,
            created_at=now,
            created_by=actor,
            expires_at=expires_at,
            hosts=request.hosts,
        )
        old = tuple(DeleteJoinToken(id=one.id) for one in fleet.join_tokens if outlived(one, now))
        told = f"join token {token_id} was made for {found}; it ends at {expires_at:%H:%M:%S} UTC"
        return *old, PutJoinToken(token=token), event(clock, "join.token", told, found, actor=actor)

    await fleet.change(decide)
    ticket = Ticket(secret=secret, pin=pin_of(_authority(fleet)))
    return CreatedJoinToken(id=token_id, part=request.part, name=request.name, expires_at=expires_at, token=str(ticket))


async def remove_gateway(fleet: Fleet, clock: Clock, name: str, *, actor: str) -> None:
    """End a gateway's trust: its stream is closed, and it cannot come back without joining anew. Raises `NotFound`."""
    found = Identity(part=Part.GATEWAY, name=name)

    def decide(_: FleetRows) -> tuple[Write, ...]:
        enrolment = fleet.enrolment(found)
        if enrolment is None:
            raise NotFound(f"no gateway {name!r} joined", hint="names are those of llmgw ctl gateway token")
        return DeleteEnrolment(id=enrolment.id), event(
            clock, "gateway.removed", f"{found} was removed", found, actor=actor
        )

    await fleet.change(decide)


def event(
    clock: Clock, kind: str, told: str, who: Identity, *, actor: str | None, severity: Severity = Severity.INFO
) -> AppendEvent:
    """Tell what happened to a machine's trust."""
    node = who.name if who.part is Part.NODE else None
    return AppendEvent(event=Event(at=clock.now(), kind=kind, severity=severity, message=told, node=node, actor=actor))


def _check_hosts(part: Part, hosts: Sequence[str]) -> None:
    if hosts and part is not Part.GATEWAY:
        raise InvalidInput(
            "hosts are for gateways: control planes name theirs as host_names, and nobody reaches a node by name",
            field="hosts",
        )
    for host in hosts:
        if not (_is_address(host) or _is_host_name(host)):
            raise InvalidInput(
                f"{host!r} is neither a host name nor an address",
                hint="write it without a port, such as llm.example.org or 10.0.0.7",
                field="hosts",
            )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_host_name(host: str) -> bool:
    return len(host) <= _LONGEST_HOST and all(_LABEL.fullmatch(label) for label in host.split("."))


def _authority(fleet: Fleet) -> x509.Certificate:
    certificate = fleet.settings.get(CERTIFICATE_SETTING)
    if certificate is None:
        raise Conflict(
            "this cluster has no authority: its control planes run without mutual TLS, and nobody joins by token",
            hint='write tls = "on" in their configuration; without it, agents show the token in agent_token_file',
        )
    return x509.load_pem_x509_certificate(certificate.encode())
