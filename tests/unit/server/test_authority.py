import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from llmgw.link.certificate_request import new_request
from llmgw.link.identity import identity_in
from llmgw.link.pin import issued_by, pin_of
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Identity, Part
from llmgw.server.authority import new_authority, new_secret, open_authority

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = new_secret()
CERTIFICATE, KEY = new_authority(SECRET, NOW)
N1 = Identity(part=Part.NODE, name="n1")


@pytest.fixture
def authority():
    return open_authority(CERTIFICATE, KEY, SECRET)


def certified(authority, identity=N1, hosts=()):
    key, request = new_request(identity)
    return key, x509.load_pem_x509_certificate(authority.certify(request, identity, hosts=hosts, now=NOW).encode())


def test_a_certificate_holds_the_name_that_was_granted_for_a_week(authority):
    _, certificate = certified(authority)
    assert identity_in(certificate) == N1
    assert certificate.not_valid_after_utc == NOW + timedelta(days=7)
    assert certificate.not_valid_before_utc < NOW


def test_the_name_in_a_request_counts_for_nothing(authority):
    _, request = new_request(Identity(part=Part.SERVER, name="control-1"))
    certificate = x509.load_pem_x509_certificate(authority.certify(request, N1, hosts=(), now=NOW).encode())
    assert identity_in(certificate) == N1


def test_a_certificate_is_of_the_requests_key_and_of_the_authority(authority):
    key, certificate = certified(authority)
    private = serialization.load_pem_private_key(key.encode(), None)
    assert private.public_key() == certificate.public_key()
    own = x509.load_pem_x509_certificate(authority.certificate.encode())
    assert issued_by(certificate, own)
    assert authority.pin == pin_of(own)


def test_another_authority_of_the_same_name_vouches_for_nothing(authority):
    _, certificate = certified(authority)
    other = x509.load_pem_x509_certificate(new_authority(SECRET, NOW)[0].encode())
    assert not issued_by(certificate, other)
    assert pin_of(other) != authority.pin


def test_a_holder_of_a_certificate_makes_no_others(authority):
    _, certificate = certified(authority)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca


def test_hosts_are_names_and_addresses_each_once(authority):
    _, certificate = certified(authority, hosts=("cp1.example.org", "10.0.0.1", "10.0.0.1", "fd00::1"))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["cp1.example.org"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]


def test_the_key_in_the_store_is_of_no_use_without_the_secret():
    assert "ENCRYPTED" in KEY
    with pytest.raises(InvalidInput, match="does not open"):
        open_authority(CERTIFICATE, KEY, new_secret())


def test_requests_that_are_none_or_of_other_keys_are_refused(authority):
    key = rsa.generate_private_key(65537, 2048)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    for text in ("", "nothing", request.public_bytes(serialization.Encoding.PEM).decode()):
        with pytest.raises(InvalidInput) as caught:
            authority.certify(text, N1, hosts=(), now=NOW)
        assert caught.value.field == "request"


P256, P239 = bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d030105")
ECDSA_SHA256, ECDSA_OTHER = bytes.fromhex("06082a8648ce3d040302"), bytes.fromhex("06082a8648ce3d040308")


@pytest.mark.parametrize(("known", "unknown"), [(P256, P239), (ECDSA_SHA256, ECDSA_OTHER)])
def test_requests_of_a_kind_that_nobody_knows_are_refused(authority, known, unknown):
    _, text = new_request(N1)
    der = x509.load_pem_x509_csr(text.encode()).public_bytes(serialization.Encoding.DER)
    assert known in der
    pem = ssl.DER_cert_to_PEM_cert(der.replace(known, unknown)).replace("CERTIFICATE", "CERTIFICATE REQUEST")
    with pytest.raises(InvalidInput) as caught:
        authority.certify(pem, N1, hosts=(), now=NOW)
    assert caught.value.field == "request"
