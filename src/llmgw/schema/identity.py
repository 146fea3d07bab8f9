"""Who a machine is within the cluster, and what lets it in."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.value import Value


class Part(StrEnum):
    """What a certificate lets its holder be."""

    NODE = "node"
    SERVER = "server"
    GATEWAY = "gateway"


class Identity(Value, frozen=True, kw_only=True):
    """The holder of a certificate of this cluster."""

    part: Part
    name: str

    @property
    def uri(self) -> str:
        """The name in the certificate (a subject alternative name of type URI): `llmgw://node/NAME`."""
        return f"llmgw://{self.part}/{self.name}"

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


class JoinToken(Value, frozen=True, kw_only=True):
    """Lets one machine join, once. Only a keyed hash is stored."""

    id: str
    """Public prefix of the secret (`lj_` + 8 characters): safe to log."""
    hash: str
    part: Part
    name: str
    created_at: datetime
    created_by: str
    """Id of the operator's token that made it."""
    expires_at: datetime
    hosts: tuple[str, ...] = ()
    """Names and addresses people reach a gateway by: they go into its certificate."""
    spent_at: datetime | None = None
    """When it was used, or made void because it was presented for another name."""


class Enrolment(Value, frozen=True, kw_only=True):
    """A machine that joined. Certificates made before `joined_at` are no longer taken: it joined anew."""

    part: Part
    name: str
    joined_at: datetime
    hosts: tuple[str, ...] = ()
    """Those of its token."""

    @property
    def id(self) -> str:
        """Key of the row."""
        return f"{self.part}/{self.name}"


class Trust(Value, frozen=True, kw_only=True):
    """Join tokens that may still be used, and machines that joined."""

    tokens: tuple[JoinToken, ...] = ()
    enrolments: tuple[Enrolment, ...] = ()
