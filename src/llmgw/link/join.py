"""How a machine gets its certificate: the first one with a join token, later ones with the one it has."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from cryptography import x509
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from llmgw.link.certificate_request import new_request
from llmgw.link.identity import TlsIdentity, identity_in
from llmgw.link.pin import issued_by, pin_of
from llmgw.link.server import JOIN_PATH
from llmgw.schema.errors import Forbidden, InvalidInput, LlmgwError
from llmgw.schema.identity import Identity, Part
from llmgw.schema.join import Declined, Introduction, Join, JoinAnswer, Joined, Renew
from llmgw.schema.link import Refused
from llmgw.schema.value import Value

DEADLINE_S = 15.0
"""Seconds for one control plane: connection, handshake and answer."""
CLOSE_S = 0.5
MOST_ASKED = 16
"""Addresses asked at most: each may name another, and not all of them are proven to be control planes."""
MAX_MESSAGE = 256 * 1024

T = TypeVar("T")
_decoder = msgspec.json.Decoder(JoinAnswer)


class Ticket(Value, frozen=True, kw_only=True):
    """A join token as it is handed over: the secret, and the pin of the authority that made it."""

    secret: str
    pin: str

    def __str__(self) -> str:
        return f"{self.secret}.{self.pin}"


class Certified(Value, frozen=True, kw_only=True):
    """What a machine that joined keeps."""

    key: str
    certificate: str
    authority: str
    authority_secret: str | None


class NotJoined(LlmgwError):
    """No control plane could be asked."""


def read_ticket(text: str) -> Ticket:
    """Read a join token. Raises `InvalidInput`, without repeating it."""
    secret, dot, pin = text.strip().partition(".")
    if not (secret.startswith("lj_") and dot and pin and secret.isascii() and pin.isascii()):
        raise InvalidInput(
            "this is no join token",
            hint="it is one line, lj_….…, that llmgw ctl node token NAME (or server token) prints once",
            field="token",
        )
    return Ticket(secret=secret, pin=pin)


async def join(addresses: Sequence[str], ticket: Ticket, identity: Identity) -> Certified:
    """Ask the control planes in turn for a first certificate.

    The control plane is checked against the pin before the token is sent. Raises `Forbidden` when the cluster declines,
    and `NotJoined` when no control plane could be asked.
    """
    key, request = await asyncio.to_thread(new_request, identity)

    async def ask(stream: ClientConnection) -> Certified | Refused:
        introduction = await _introduced(stream)
        if isinstance(introduction, Refused):
            return introduction
        _check_pin(introduction, _leaf(stream), ticket.pin)
        answer = await _say(stream, Join(part=identity.part, name=identity.name, token=ticket.secret, request=request))
        if isinstance(answer, Refused):
            return answer
        return Certified(
            key=key,
            certificate=answer.certificate,
            authority=introduction.authority,
            authority_secret=answer.authority_secret,
        )

    return await _in_turn(addresses, _unverified(), ask)


async def renew(addresses: Sequence[str], own: TlsIdentity) -> None:
    """Ask the control planes in turn for a certificate of a new key, and put both in place. Raises like `join`."""
    key, request = await asyncio.to_thread(new_request, own.identity)

    async def ask(stream: ClientConnection) -> str | Refused:
        try:
            _check_part(_leaf(stream))
        except Forbidden as error:
            # Told nothing, and passed over: who took the address of one control plane must not keep us from the others.
            return Refused(reason=error.message)
        introduction = await _introduced(stream)
        if isinstance(introduction, Refused):
            return introduction
        answer = await _say(stream, Renew(request=request))
        return answer if isinstance(answer, Refused) else answer.certificate

    own.save(key=key, certificate=await _in_turn(addresses, own.dialling(), ask))


async def _in_turn(
    addresses: Sequence[str], context: ssl.SSLContext, ask: Callable[[ClientConnection], Awaitable[T | Refused]]
) -> T:
    """Ask one after the other, who leads as soon as one says so."""
    waiting, asked, problems = list(addresses), set[str](), list[str]()
    while waiting and len(asked) < MOST_ASKED:
        address = waiting.pop(0)
        if address in asked:
            continue
        asked.add(address)
        try:
            async with asyncio.timeout(DEADLINE_S), _dial(address, context) as stream:
                answer = await ask(stream)
        except TimeoutError:
            problems.append(f"{address} did not answer within {DEADLINE_S:g} s")
        except (OSError, WebSocketException, msgspec.MsgspecError) as error:
            problems.append(f"{address}: {error}")
        else:
            if not isinstance(answer, Refused):
                return answer
            problems.append(f"{address}: {answer.reason}")
            if answer.leader is not None:
                waiting.insert(0, answer.leader)
    raise NotJoined(
        f"no control plane could be asked: {'; '.join(problems)}",
        hint="name one that answers, as HOST:PORT of its agents",
    )


def _dial(address: str, context: ssl.SSLContext) -> connect:
    return connect(
        f"wss://{address}{JOIN_PATH}",
        ssl=context,
        compression=None,
        open_timeout=DEADLINE_S,
        close_timeout=CLOSE_S,
        max_size=MAX_MESSAGE,
        user_agent_header=None,
        proxy=None,
    )


async def _introduced(stream: ClientConnection) -> Introduction | Refused:
    answer = _decoder.decode(await stream.recv())
    if isinstance(answer, Introduction | Refused):
        return answer
    raise msgspec.ValidationError("a control plane must introduce the cluster's authority first")


async def _say(stream: ClientConnection, request: Join | Renew) -> Joined | Refused:
    """Make the request. Raises `Forbidden` when the cluster declines."""
    await stream.send(msgspec.json.encode(request).decode())
    answer = _decoder.decode(await stream.recv())
    if isinstance(answer, Declined):
        raise Forbidden(answer.reason, hint="make a new token with llmgw ctl node token, server token or gateway token")
    if isinstance(answer, Joined | Refused):
        return answer
    raise msgspec.ValidationError("the answer to a request must be a certificate, or why not")


def _unverified() -> ssl.SSLContext:
    """Give a context that takes any certificate: who joins knows the authority by its pin only, checked right after."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _leaf(stream: ClientConnection) -> x509.Certificate:
    """Give the certificate that the other end of this very connection proved to hold the key of."""
    shown = stream.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown)


def _check_pin(introduction: Introduction, leaf: x509.Certificate, pin: str) -> None:
    """Raise `Forbidden` unless the pinned authority vouches for the other end as a control plane, now."""
    try:
        authority = x509.load_pem_x509_certificate(introduction.authority.encode())
    except ValueError as error:
        raise msgspec.ValidationError("the authority's certificate cannot be read") from error
    if pin_of(authority) != pin or not issued_by(leaf, authority):
        raise Forbidden(
            "the control plane that answered is not of the cluster that made the join token: nothing was sent to it",
            hint="check the address; if it is right, somebody sits between this machine and the control plane",
        )
    now = datetime.now(UTC)
    if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
        raise Forbidden(
            f"the control plane's certificate is valid from {leaf.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC to "
            f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC, and here it is {now:%Y-%m-%d %H:%M:%S} UTC",
            hint="set the clock of this machine, or of the control plane",
        )
    _check_part(leaf)


def _check_part(leaf: x509.Certificate) -> None:
    found = identity_in(leaf)
    if found is None or found.part is not Part.SERVER:
        raise Forbidden(
            f"the certificate that was shown is of {found or 'nobody in a cluster'}, not of a control plane"
        )
