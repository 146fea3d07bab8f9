"""Console sessions: in memory of this process, so that a logout or a restart really ends them."""

import hashlib
import secrets
from dataclasses import dataclass, replace

from llmgw.ports import Clock
from llmgw.schema.key import AdminToken
from llmgw.server.fleet import Fleet
from llmgw.server.services import tokens

IDLE_S = 12 * 3600.0
"""A forgotten window ends overnight. An open page asks every two seconds and keeps its session."""
LONGEST_S = 7 * 24 * 3600.0
MOST = 1000
"""Beyond it the longest unused session ends: logins must not fill the memory."""


@dataclass(frozen=True)
class _Session:
    token: str
    opened: float
    used: float


class Sessions:
    """Sessions by the digest of their secret: what memory holds opens nothing."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    def open(self, secret: str) -> str:
        """Log in with an admin token; gives the secret of a new session. Raises `Unauthorized`."""
        token = tokens.identify(self._fleet, secret)
        self._end_old()
        session = secrets.token_urlsafe(32)
        now = self._clock.monotonic()
        self._sessions[_digest(session)] = _Session(token.id, opened=now, used=now)
        return session

    def token(self, session: str) -> AdminToken | None:
        """Give whose session this is; `None` once it is over or its token is revoked."""
        digest = _digest(session)
        known = self._sessions.get(digest)
        if known is None:
            return None
        now = self._clock.monotonic()
        token = tokens.still_valid(self._fleet, known.token)
        if token is None or self._over(known, now):
            del self._sessions[digest]
            return None
        self._sessions[digest] = replace(known, used=now)
        return token

    def end(self, session: str) -> None:
        """Log out; a no-op for a session that is over."""
        self._sessions.pop(_digest(session), None)

    def _end_old(self) -> None:
        now = self._clock.monotonic()
        kept = [(digest, one) for digest, one in self._sessions.items() if not self._over(one, now)]
        kept.sort(key=lambda item: item[1].used)
        self._sessions = dict(kept[-(MOST - 1) :])

    def _over(self, session: _Session, now: float) -> bool:
        return now - session.used > IDLE_S or now - session.opened > LONGEST_S


def _digest(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()
