"""Join tokens as operators make them."""

from datetime import datetime

from llmgw.schema.identity import Part
from llmgw.schema.value import Value


class CreateJoinToken(Value, frozen=True, kw_only=True):
    """`POST /api/v1/join-tokens`."""

    part: Part
    """What joins: a node, a control plane (`server`) or a gateway."""
    name: str
    """Its name: node id, or `name` in its configuration."""
    hosts: tuple[str, ...] = ()
    """For a gateway: names and addresses its clients reach it by. They go into its certificate, where it shows them
    that of the cluster (no `certificate_file`); those of this machine itself always do."""


class CreatedJoinToken(Value, frozen=True, kw_only=True):
    """A join token, which is not shown again."""

    id: str
    part: Part
    name: str
    expires_at: datetime
    token: str
    """What `llmgw agent join` (or `server join`, `gateway join`) reads from its standard input or a file."""
