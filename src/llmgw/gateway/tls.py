"""TLS of a gateway: what it shows to whom, and whom it takes for a node, a control plane or another gateway."""

from dataclasses import dataclass
from pathlib import Path

from llmgw.config.gateway import GatewayConfig
from llmgw.config.tls import Tls
from llmgw.link.identity import TlsIdentity
from llmgw.link.peers import expecting
from llmgw.link.renewed import Certificates
from llmgw.link.served import ServedCertificate
from llmgw.relay.tls import ClientTls, ServerTls
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Part


@dataclass(frozen=True, slots=True)
class GatewayTls:
    """One process's share of it: the master and each worker have their own, and follow renewals themselves."""

    identity: TlsIdentity
    clients: ServerTls
    """For the listener of `/v1`."""
    doors: ClientTls
    """For dialling nodes' doors."""
    certificates: tuple[Certificates, ...]
    """What is renewed on disk while the process runs."""


def gateway_tls(config: GatewayConfig) -> GatewayTls | None:
    """Read this gateway's certificates; `None` without TLS.

    Raises `InvalidInput` for a gateway that did not join, or joined by another name, and files that cannot be used.
    """
    if config.tls is not Tls.ON:
        return None
    identity = TlsIdentity(Path(config.data_dir), join="llmgw gateway join")
    _check_name(identity, config.name)
    served = _served(config, identity)
    return GatewayTls(
        identity=identity,
        clients=ServerTls(served.context),
        doors=ClientTls(identity.dialling(), expecting(Part.NODE)),
        certificates=(identity, served),
    )


def _served(config: GatewayConfig, identity: TlsIdentity) -> ServedCertificate:
    if config.certificate_file is None or config.key_file is None:
        return ServedCertificate(identity.file, identity.file, field="tls")
    return ServedCertificate(Path(config.certificate_file), Path(config.key_file), field="certificate_file")


def _check_name(identity: TlsIdentity, name: str) -> None:
    found = identity.identity
    if found.part is not Part.GATEWAY:
        raise InvalidInput(
            f"the identity in {identity.file} is of {found}, not of a gateway",
            hint="give the gateway a data_dir of its own and run llmgw gateway join",
            field="data_dir",
        )
    if found.name != name:
        raise InvalidInput(
            f"this gateway joined by the name {found.name!r}, not {name!r}",
            hint=f'write name = "{found.name}", or let it join anew',
            field="name",
        )
