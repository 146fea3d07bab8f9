import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from llmgw.link.served import ServedCertificate
from llmgw.schema.errors import InvalidInput
from llmgw.schema.identity import Part
from llmgw.testing.identities import Cluster


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


@pytest.fixture
def split(cluster, tmp_path):
    """Give a function that writes a fresh certificate and its key as two files."""

    def write(which=("certificate", "key")):
        both = cluster.join(tmp_path / "made", Part.GATEWAY, "g1").file.read_text()
        at = both.index("-----BEGIN CERTIFICATE")
        texts = {"key": both[:at], "certificate": both[at:]}
        for name in which:
            (tmp_path / f"{name}.pem").write_text(texts[name])
        return tmp_path / "certificate.pem", tmp_path / "key.pem"

    return write


def shown(served):
    """Shake hands in memory, and give what the client saw."""
    client_in, client_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_bio(client_in, client_out)
    server = served.context.wrap_bio(client_out, client_in, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert(binary_form=True)


def test_files_that_are_replaced_are_shown_to_new_connections(split):
    served = ServedCertificate(*split(), field="certificate_file")
    before = shown(served)

    assert served.reload() is False
    split()
    assert served.reload() is True
    assert shown(served) != before


def test_between_the_two_writings_the_old_certificate_is_served_on(split):
    served = ServedCertificate(*split(), field="certificate_file")
    before = shown(served)
    split(("certificate",))

    with pytest.raises(InvalidInput, match="key values mismatch"):
        served.reload()
    assert shown(served) == before
    split()
    assert served.reload() is True


def test_what_cannot_be_served_is_refused_naming_the_field(split, tmp_path):
    certificate, key = split()
    with pytest.raises(InvalidInput, match=r"certificate_file: cannot read .*nothing.pem: No such file"):
        ServedCertificate(tmp_path / "nothing.pem", key, field="certificate_file")
    key.write_text("no key")
    with pytest.raises(InvalidInput, match="are not a certificate and its key") as caught:
        ServedCertificate(certificate, key, field="certificate_file")
    assert caught.value.field == "certificate_file"


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(split):
    certificate, key = split()
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"x")
    key.write_bytes(plain.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))

    with pytest.raises(InvalidInput, match="are not a certificate and its key"):
        ServedCertificate(certificate, key, field="certificate_file")
