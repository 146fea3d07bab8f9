"""Who may join, whose certificate is still good, and when it is renewed."""

from datetime import datetime, timedelta

from llmgw.schema.identity import Enrolment, Identity, JoinToken
from llmgw.schema.value import Value

TOKEN_LIFE = timedelta(minutes=15)
CERTIFICATE_LIFE = timedelta(days=7)
AUTHORITY_LIFE = timedelta(days=3650)
BACKDATED = timedelta(minutes=5)
"""Certificates begin so much in the past: clocks of machines differ. Larger differences are told at the handshake."""
KEPT = timedelta(days=1)
"""How long a token that can no longer be used is kept, so that its use can be told from one that never was."""


class Refusal(Value, frozen=True, kw_only=True):
    """Why somebody may not join."""

    reason: str
    void: bool = False
    """The token is in hands it was not made for: nobody may use it any more."""


def judge_token(token: JoinToken | None, wanted: Identity, now: datetime) -> Refusal | None:
    """Decide about a token whose secret is right (`None`: there is no such token). `None`: it may be used."""
    if token is None:
        return Refusal(reason="there is no such join token")
    if token.spent_at is not None:
        return Refusal(reason=f"join token {token.id} was used or made void at {token.spent_at:%H:%M:%S} UTC")
    if now >= token.expires_at:
        return Refusal(reason=f"join token {token.id} expired at {token.expires_at:%H:%M:%S} UTC")
    if (token.part, token.name) != (wanted.part, wanted.name):
        return Refusal(
            reason=f"join token {token.id} is for {token.part} {token.name}, not for {wanted}; it is void now",
            void=True,
        )
    return None


def judge_certificate(enrolment: Enrolment | None, identity: Identity, begins: datetime) -> str | None:
    """Say why a certificate of this cluster's authority is no longer taken; `None`: it is. `begins`: its notBefore."""
    if enrolment is None:
        return f"{identity} is not known here: it was removed, or the store is older than it; let it join again"
    if begins < enrolment.joined_at.replace(microsecond=0) - BACKDATED:
        return f"{identity} joined anew at {enrolment.joined_at:%Y-%m-%d %H:%M:%S} UTC with another certificate"
    return None


def renew_at(begins: datetime, ends: datetime) -> datetime:
    """Give when a certificate is renewed: after two thirds of its life."""
    return begins + (ends - begins) * 2 / 3


def renewal_problem(begins: datetime, ends: datetime, now: datetime) -> str | None:
    """Say in words that a certificate is about to end, once a fifth of its life is left; renewing failed till then."""
    if now < begins + (ends - begins) * 4 / 5:
        return None
    state = "ended" if now >= ends else "ends"
    return f"its certificate {state} {ends:%Y-%m-%d %H:%M} UTC and could not be renewed"


def outlived(token: JoinToken, now: datetime) -> bool:
    """True when a token need not be kept any longer."""
    return now - token.expires_at > KEPT
