import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from llmgw.gateway.renewal import Renewal
from llmgw.schema.identity import Identity, Part
from llmgw.schema.link import Renewed
from llmgw.telemetry.clock import SystemClock
from llmgw.testing.identities import Cluster

G1 = Identity(part=Part.GATEWAY, name="g1")


@pytest.fixture
def cluster():
    return Cluster()


def sign(cluster, request):
    certificate = cluster.authority.certify(request.request, G1, hosts=(), now=datetime.now(UTC))
    return Renewed(certificate=certificate)


async def asked(renewal, sent, count=1):
    task = asyncio.ensure_future(renewal.run())
    try:
        async with asyncio.timeout(10):
            while len(sent) < count:  # noqa: ASYNC110 - the code under test tells nobody
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_old_certificate_is_replaced_by_one_of_a_new_key(cluster, tmp_path):
    own, sent = cluster.join(tmp_path, Part.GATEWAY, "g1", age=timedelta(days=5)), []
    before = own.file.read_text()
    renewal = Renewal(own, sent.append, SystemClock(), look_s=0.02)
    await asked(renewal, sent)
    renewal.take(sign(cluster, sent[-1]))
    assert own.file.read_text() != before
    assert own.ends > datetime.now(UTC) + timedelta(days=6)
    own.dialling()  # key and certificate belong together


async def test_a_refusal_leaves_the_old_one_and_is_asked_again(cluster, tmp_path):
    own, sent = cluster.join(tmp_path, Part.GATEWAY, "g1", age=timedelta(days=5)), []
    before = own.file.read_text()
    renewal = Renewal(own, sent.append, SystemClock(), look_s=0.02)
    await asked(renewal, sent)
    renewal.take(Renewed(reason="gateway g1 is not known here"))
    assert own.file.read_text() == before
    await asked(renewal, sent, count=len(sent) + 1)
    renewal.take(sign(cluster, sent[-1]))
    assert own.file.read_text() != before


async def test_an_answer_nobody_asked_for_changes_nothing(cluster, tmp_path):
    own, sent = cluster.join(tmp_path, Part.GATEWAY, "g1"), []
    before = own.file.read_text()
    renewal = Renewal(own, sent.append, SystemClock(), look_s=0.02)
    task = asyncio.ensure_future(renewal.run())
    await asyncio.sleep(0.1)
    task.cancel()
    assert sent == []
    renewal.take(Renewed(certificate=before))
    assert own.file.read_text() == before


async def test_an_answer_to_an_older_question_does_not_take_the_identity_away(cluster, tmp_path):
    own, sent = cluster.join(tmp_path, Part.GATEWAY, "g1", age=timedelta(days=5)), []
    before = own.file.read_text()
    context = own.dialling()
    renewal = Renewal(own, sent.append, SystemClock(), look_s=0.02)
    await asked(renewal, sent, count=2)
    renewal.take(sign(cluster, sent[0]))
    assert own.file.read_text() == before
    assert own.reload() is False
    context.load_cert_chain(own.file)


async def test_an_identity_that_was_replaced_by_one_without_its_key_is_not_taken_into_use(cluster, tmp_path):
    own = cluster.join(tmp_path, Part.GATEWAY, "g1")
    cluster.join(tmp_path / "other", Part.GATEWAY, "g1")
    other = (tmp_path / "other" / "identity" / "identity.pem").read_text()
    key = own.file.read_text().partition("-----BEGIN CERTIFICATE")[0]
    own.file.write_text(key + "-----BEGIN CERTIFICATE" + other.partition("-----BEGIN CERTIFICATE")[2])
    for _ in range(2):
        with pytest.raises(ssl.SSLError):
            own.reload()
