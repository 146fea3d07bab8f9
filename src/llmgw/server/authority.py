"""The cluster's certificate authority: one key for all control planes, encrypted in the store by a secret of theirs."""

import ipaddress
import secrets
from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from llmgw.core.trust import AUTHORITY_LIFE, BACKDATED, CERTIFICATE_LIFE
from llmgw.link.pin import pin_of
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Identity

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "llmgw cluster authority")])


class Authority:
    """Makes certificates."""

    def __init__(self, certificate: str, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        """PEM."""
        self._own = x509.load_pem_x509_certificate(certificate.encode())
        self._key = key

    @property
    def pin(self) -> str:
        """What a join token says of this authority: see `pin_of`."""
        return pin_of(self._own)

    def certify(self, request: str, identity: Identity, *, hosts: Sequence[str], now: datetime) -> str:
        """Make a certificate (PEM) of the request's key. `hosts`: addresses and names people may reach it by.

        Raises `InvalidInput` for a request that is none, or of a kind of key we do not take.
        """
        try:
            wanted = x509.load_pem_x509_csr(request.encode())
            key = wanted.public_key()
            proven = isinstance(key, ec.EllipticCurvePublicKey) and wanted.is_signature_valid
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InvalidInput(f"this is no certificate request: {error}", field="request") from error
        if not isinstance(key, ec.EllipticCurvePublicKey) or not proven:
            raise InvalidInput("the certificate request is not signed by an elliptic curve key", field="request")
        return self._sign(key, identity, hosts=hosts, now=now)

    def _sign(self, key: ec.EllipticCurvePublicKey, identity: Identity, *, hosts: Sequence[str], now: datetime) -> str:
        # Each part both dials and listens: nodes have a door, gateways a listener for their peers.
        usage = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)
        names = [x509.UniformResourceIdentifier(identity.uri), *map(_host, dict.fromkeys(hosts))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, identity.part.value)]))
            .issuer_name(_NAME)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + CERTIFICATE_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        return _pem(builder.sign(self._key, hashes.SHA256()))


def new_secret() -> str:
    """Make the secret that encrypts the authority's key."""
    return secrets.token_urlsafe(32)


def new_authority(secret: str, now: datetime) -> tuple[str, str]:
    """Make an authority: its certificate, and its key encrypted by `secret`, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(secret.encode()),
    )
    return _pem(builder.sign(key, hashes.SHA256())), encrypted.decode()


def open_authority(certificate: str, encrypted_key: str, secret: str) -> Authority:
    """Open the authority's key. Raises `InvalidInput` when the secret is not the one it was encrypted by."""
    try:
        key = serialization.load_pem_private_key(encrypted_key.encode(), secret.encode())
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            "the secret of this control plane does not open the key of the cluster's authority",
            hint="it belongs to another cluster, or the authority was made anew: run llmgw server join",
            field="tls",
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput("the key of the cluster's authority is of no kind that is known", field="tls")
    return Authority(certificate, key)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
