"""A cluster's authority, and identities by it on disk: what joining would have made."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from llmgw.link.certificate_request import new_request
from llmgw.link.identity import TlsIdentity, write_identity
from llmgw.schema.identity import Identity, Part
from llmgw.server.authority import Authority, new_authority, new_secret, open_authority

HOSTS = ("127.0.0.1", "localhost")


class Cluster:
    """Signs for whoever a test needs."""

    def __init__(self) -> None:
        secret = new_secret()
        self.authority: Authority = open_authority(*new_authority(secret, datetime.now(UTC)), secret)

    def join(
        self, data_dir: Path, part: Part, name: str, *, trusts: "Cluster | None" = None, age: timedelta = timedelta(0)
    ) -> TlsIdentity:
        """Give a machine its identity, or a new one. `trusts`: it takes that cluster's certificates instead of ours."""
        who = Identity(part=part, name=name)
        key, request = new_request(who)
        write_identity(
            data_dir,
            key=key,
            certificate=self.authority.certify(request, who, hosts=HOSTS, now=datetime.now(UTC) - age),
            authority=(trusts or self).authority.certificate,
        )
        return TlsIdentity(data_dir, join="llmgw join")
