"""A machine's key, made on it and never leaving it, and the request for a certificate of it."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from llmgw.schema.identity import Identity


def new_request(identity: Identity) -> tuple[str, str]:
    """Make a key and a request; both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, identity.part.value)]))
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return plain.decode(), request.public_bytes(serialization.Encoding.PEM).decode()
