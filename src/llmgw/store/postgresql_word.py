"""What PostgreSQL servers say of themselves, asked past all pools: is it a primary, and on which timeline."""

import threading
import time
from collections.abc import Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

import psycopg

from llmgw.schema.store import PostgresWord

Place = tuple[str, str]
"""Host and port, as libpq writes them."""

_QUESTION = "SELECT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()"
_WRITTEN_TIMELINE = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
"""The last checkpoint may be older than a promotion; the name of the log file being written is not."""
_LIMITS = {"connect_timeout": "2", "tcp_user_timeout": "5000", "target_session_attrs": "any"}

_Answers = SimpleQueue[tuple[Place, PostgresWord | None]]


def places(parameters: Mapping[str, Any]) -> tuple[Place, ...]:
    """Give the hosts that libpq's `parameters` name, each with its port."""
    hosts = str(parameters.get("host") or "").split(",")
    ports = str(parameters.get("port") or "5432").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    return tuple(zip(hosts, ports, strict=True))


def postgres_words(
    parameters: Mapping[str, Any], asked: Iterable[Place], *, deadline_s: float
) -> dict[Place, PostgresWord | None]:
    """Ask all at once; `None` for those that do not answer in time. Blocks up to `deadline_s`.

    A server that is frozen keeps a connection and says nothing: each is asked in a thread that is left behind then, and
    ends with its connection.
    """
    words: dict[Place, PostgresWord | None] = dict.fromkeys(asked)
    answers: _Answers = SimpleQueue()
    for place in words:
        threading.Thread(target=_ask, args=(parameters, place, answers), daemon=True, name="postgres-word").start()
    until = time.monotonic() + deadline_s
    try:
        for _ in range(len(words)):
            place, word = answers.get(timeout=max(until - time.monotonic(), 0.001))
            words[place] = word
    except Empty:
        pass
    return words


def _ask(parameters: Mapping[str, Any], place: Place, answers: _Answers) -> None:
    host, port = place
    try:
        with psycopg.connect(**{**parameters, **_LIMITS, "host": host, "port": port}, autocommit=True) as connection:
            answers.put((place, _word(connection)))
    except psycopg.Error:
        answers.put((place, None))


def _word(connection: psycopg.Connection[Any]) -> PostgresWord | None:
    row = connection.execute(_QUESTION).fetchone()
    if row is None:
        return None
    recovering, timeline = row
    written = None if recovering else connection.execute(_WRITTEN_TIMELINE).fetchone()
    return PostgresWord(in_recovery=recovering, timeline=written[0] if written else timeline)
