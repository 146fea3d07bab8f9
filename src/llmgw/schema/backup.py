"""A backup: the whole store as one file that says what it is."""

from datetime import datetime

from llmgw.schema.value import Value

FORMAT = "llmgw-backup"
FORMAT_VERSION = 1
"""Grows when a reader of the version before could not read the file."""

Cell = str | int | None
Row = dict[str, Cell]
"""A row's columns by name, as the database keeps them."""


class Content(Value, frozen=True, kw_only=True):
    """All that a store holds, at one moment."""

    schema: str
    """Revision of the store's schema that the rows are of."""
    epoch: int
    """Fencing number of who led, or led last; 0 when nobody ever did."""
    tables: dict[str, tuple[Row, ...]]


class Backup(Value, frozen=True, kw_only=True):
    """The file: JSON. It holds secrets: engines' keys, the cluster's hash key."""

    format: str
    format_version: int
    llmgw: str
    """Release of the control plane that took it."""
    taken_at: datetime
    taken_by: str
    """Name of the control plane."""
    sha256: str
    """Of `content` as JSON without spaces, fields in the order of `Content`, other names sorted."""
    content: Content


class Observing(Value, frozen=True, kw_only=True):
    """Why nothing is ordered and nothing planned: the store was restored, or lost, and no operator has resumed yet."""

    since: datetime
    taken_at: datetime | None = None
    """When the backup was taken that was restored; `None`: none was, the store is empty and nodes run what it does not
    know."""
