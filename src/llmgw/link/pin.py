"""How who joins knows the cluster's authority: by the hash of its key, which the join token carries."""

import base64
import hashlib

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization


def pin_of(authority: x509.Certificate) -> str:
    """Give the SHA-256 of an authority's public key (SubjectPublicKeyInfo), base64url without padding."""
    spki = authority.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.urlsafe_b64encode(hashlib.sha256(spki).digest()).rstrip(b"=").decode()


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """True when `authority` signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
