"""Which of a database's hosts is its primary: the one that writes on the newest timeline.

Each promotion begins a timeline. A former primary whose Patroni froze goes on writing on an older one, and a client
that takes the first host that accepts writes may find it (facts on availability, section 1.3).
"""

from collections.abc import Mapping
from typing import TypeVar

from llmgw.schema.store import PostgresWord

H = TypeVar("H")


def primary(words: Mapping[H, PostgresWord | None]) -> H | None:
    """Give the host that writes on the newest timeline; `None` when no host that answered writes."""
    writing = {host: word.timeline for host, word in words.items() if word is not None and not word.in_recovery}
    return max(writing, key=lambda host: writing[host], default=None)
