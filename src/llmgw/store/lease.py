"""The lease row over SQL: compare-and-set statements, on a connection and a thread of its own."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from llmgw.schema.lease import LeaseRow
from llmgw.store.calls import Calls
from llmgw.store.tables import lease

_ROW_ID = 1


class SqlLeaseStore:
    """A `LeaseStore`. It owns `calls`, which must have one thread and one connection for it alone."""

    def __init__(self, calls: Calls, *, proves_old_holder_dead: Callable[[], bool]) -> None:
        self._calls = calls
        self._proves_old_holder_dead = proves_old_holder_dead

    def read(self) -> LeaseRow | None:
        """Read the row; `None` when nobody ever led."""
        return self._calls.wait_for("lease_read", _read, write=False)

    def take(self, seen: LeaseRow | None, new: LeaseRow) -> bool:
        """Put `new` if the row still equals `seen` in holder, epoch, beat and released."""
        if seen is None:
            return self._calls.wait_for("lease_take", lambda connection: _insert(connection, new), write=True)
        expected = and_(
            lease.c.holder == seen.holder,
            lease.c.epoch == seen.epoch,
            lease.c.beat == seen.beat,
            lease.c.released.is_(seen.released),
        )
        return self._calls.wait_for("lease_take", lambda connection: _update(connection, expected, new), write=True)

    def renew(self, row: LeaseRow) -> bool:
        """Set beat to `row.beat` if holder and epoch are still `row`'s, it is not released and its beat is lower."""
        expected = and_(
            lease.c.holder == row.holder,
            lease.c.epoch == row.epoch,
            lease.c.beat < row.beat,
            lease.c.released.is_(False),
        )
        return self._calls.wait_for("lease_renew", lambda connection: _update(connection, expected, row), write=True)

    def release(self, holder: str, epoch: int) -> bool:
        """Mark the row released if holder and epoch still match."""
        statement = (
            update(lease)
            .where(lease.c.id == _ROW_ID, lease.c.holder == holder, lease.c.epoch == epoch)
            .values(released=True)
        )
        return self._calls.wait_for(
            "lease_release", lambda connection: connection.execute(statement).rowcount == 1, write=True
        )

    def proves_old_holder_dead(self) -> bool:
        """True when an exclusive lock held by this process proves that no earlier holder lives."""
        return self._proves_old_holder_dead()

    def close(self) -> None:
        """Close the connection."""
        self._calls.close()


def _read(connection: Connection) -> LeaseRow | None:
    row = connection.execute(select(lease).where(lease.c.id == _ROW_ID)).first()
    if row is None:
        return None
    return LeaseRow(
        holder=row.holder,
        epoch=row.epoch,
        beat=row.beat,
        released=row.released,
        name=row.name,
        address=row.address,
        renewed_at=datetime.fromisoformat(row.renewed_at),
    )


def _insert(connection: Connection, new: LeaseRow) -> bool:
    try:
        with connection.begin_nested():
            connection.execute(insert(lease).values(id=_ROW_ID, **_columns(new)))
    except IntegrityError:
        return False
    return True


def _update(connection: Connection, expected: ColumnElement[bool], new: LeaseRow) -> bool:
    statement = update(lease).where(lease.c.id == _ROW_ID, expected).values(**_columns(new))
    return connection.execute(statement).rowcount == 1


def _columns(row: LeaseRow) -> dict[str, object]:
    return {
        "holder": row.holder,
        "epoch": row.epoch,
        "beat": row.beat,
        "released": row.released,
        "name": row.name,
        "address": row.address,
        "renewed_at": row.renewed_at.isoformat(),
    }
