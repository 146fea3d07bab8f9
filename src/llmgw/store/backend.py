"""What differs between databases."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from sqlalchemy import Connection, Engine

from llmgw.schema.store import PostgresWord

Observe = Callable[[str, float, str | None], None]
"""Told after each store call: its name, its seconds, and the error's code or `None`. Called from any thread."""


class Backend(Protocol):
    """One database, as `store.sql` and `store.lease` need it."""

    @property
    def where(self) -> str:
        """The database in words for people, without secrets."""

    @property
    def hint(self) -> str:
        """What to do when it does not answer."""

    @property
    def disk(self) -> str:
        """Where the disk is that the database lies on, in words."""

    @property
    def read_options(self) -> Mapping[str, Any]:
        """Execution options of a transaction that reads one consistent snapshot."""

    @property
    def write_options(self) -> Mapping[str, Any]:
        """Execution options of a transaction that writes."""

    def claim(self) -> None:
        """Make ready to be used by this process alone, where the database cannot be shared. Raises `StoreError`."""

    def engine(self, *, connections: int, deadline_s: float) -> Engine:
        """Give an engine with a pool of `connections` at most."""

    def cut(self, connection: Any) -> None:
        """End what a driver's connection is doing, from another thread. The connection is not used again."""

    def is_full(self, error: BaseException) -> bool:
        """True for a driver's error that says that the database's disk is full."""

    def lock_schema(self, connection: Connection) -> None:
        """Keep all others from changing the schema until the transaction of `connection` ends; may wait for them."""

    def proves_old_holder_dead(self) -> bool:
        """True when this process alone can use the database."""

    def words(
        self, asked: Iterable[tuple[str, str]], *, deadline_s: float
    ) -> dict[tuple[str, str], PostgresWord | None]:
        """Ask the database's servers, by host and port, what they are; empty where there are none."""

    def close(self) -> None:
        """Let others use the database."""
