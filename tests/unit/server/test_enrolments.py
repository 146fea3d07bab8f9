"""Who is let in, and what of it is remembered: each refusal, and what an interruption leaves."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from llmgw.link.certificate_request import new_request
from llmgw.link.identity import Holder
from llmgw.link.join import read_ticket
from llmgw.ports import DeleteEnrolment, PutSetting
from llmgw.schema.admin.join_token import CreateJoinToken
from llmgw.schema.errors import Conflict, InvalidInput, NotFound
from llmgw.schema.identity import Identity, Part
from llmgw.schema.join import Declined, Join, Joined, Renew
from llmgw.schema.link import Hello, Refused
from llmgw.server.authority import new_authority, open_authority
from llmgw.server.enrolments import Enrolments
from llmgw.server.services import join_tokens, node_intents
from llmgw.server.trust import CERTIFICATE_SETTING
from llmgw.testing.control_room import ControlRoom
from llmgw.testing.factories import make_node

N1 = Identity(part=Part.NODE, name="n1")
SECRET = "s" * 43


class Trust:
    """The authority without a folder."""

    def __init__(self) -> None:
        self.certificate, key = new_authority(SECRET, datetime.now(UTC))
        self.authority = open_authority(self.certificate, key, SECRET)
        self.secret = SECRET


class Elsewhere:
    """The leader is another."""

    def leader_address(self) -> str:
        return "cp2:8801"


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room


@pytest.fixture
def trust():
    return Trust()


@pytest.fixture
async def enrolments(room, trust):
    await room.fleet.write([PutSetting(name=CERTIFICATE_SETTING, value=trust.certificate)])
    return Enrolments(fleet=room.fleet, clock=room.clock, trust=trust, directory=Elsewhere())


async def token(room, part=Part.NODE, name="n1") -> str:
    made = await join_tokens.create(room.fleet, room.clock, CreateJoinToken(part=part, name=name), actor="lt_op")
    return read_ticket(made.token).secret


def join(secret, part=Part.NODE, name="n1"):
    _, request = new_request(Identity(part=part, name=name))
    return Join(part=part, name=name, token=secret, request=request)


def holder(room, identity=N1):
    return Holder(identity=identity, begins=room.clock.now())


def hello(node="n1"):
    return Hello(node=node, token="", facts=make_node().facts, shards=(), epoch=0, holder=None, generation=0)


async def kinds(room):
    return [event.kind for event in await room.store.load_events(limit=100)]


async def test_a_machine_joins_with_its_token_and_its_certificate_is_taken(room, enrolments):
    answer = await enrolments.join(join(await token(room)))
    assert isinstance(answer, Joined)
    assert answer.authority_secret is None
    assert enrolments.refuse(hello(), holder(room)) is None
    assert "join.joined" in await kinds(room)


async def test_a_token_works_once(room, enrolments):
    secret = await token(room)
    await enrolments.join(join(secret))
    again = await enrolments.join(join(secret))
    assert isinstance(again, Declined)
    assert "was used" in again.reason


async def test_a_token_that_is_used_by_two_at_the_same_moment_lets_in_one(room, enrolments):
    import asyncio

    secret = await token(room)
    answers = await asyncio.gather(*[enrolments.join(join(secret)) for _ in range(5)])
    assert sorted(type(answer).__name__ for answer in answers) == ["Declined"] * 4 + ["Joined"]


async def test_a_token_expires_after_a_quarter_of_an_hour(room, enrolments):
    secret = await token(room)
    room.clock.advance(15 * 60)
    answer = await enrolments.join(join(secret))
    assert isinstance(answer, Declined)
    assert "expired" in answer.reason


async def test_a_stolen_token_lets_nobody_in_and_is_void_for_its_owner_too(room, enrolments):
    secret = await token(room)
    thief = await enrolments.join(join(secret, name="n2"))
    assert isinstance(thief, Declined)
    assert room.fleet.enrolment(Identity(part=Part.NODE, name="n2")) is None
    assert isinstance(await enrolments.join(join(secret)), Declined)
    assert room.fleet.enrolment(N1) is None
    assert "join.stolen" in await kinds(room)


async def test_a_token_for_a_node_makes_no_control_plane(room, enrolments):
    answer = await enrolments.join(join(await token(room), part=Part.SERVER))
    assert isinstance(answer, Declined)
    assert "is for node n1, not for server n1" in answer.reason


async def test_a_guessed_token_is_declined_and_changes_nothing(room, enrolments):
    before = await room.store.load_version()
    secret = await token(room)
    made = await room.store.load_version()
    assert isinstance(await enrolments.join(join(secret[:11] + "x" * 32)), Declined)
    assert isinstance(await enrolments.join(join("")), Declined)
    assert await room.store.load_version() == made != before


async def test_a_control_plane_that_joins_is_handed_what_opens_the_authority(room, enrolments):
    answer = await enrolments.join(join(await token(room, Part.SERVER, "cp2"), Part.SERVER, "cp2"))
    assert isinstance(answer, Joined)
    assert answer.authority_secret == SECRET


async def test_a_request_that_cannot_be_certified_costs_no_token(room, enrolments):
    secret = await token(room)
    answer = await enrolments.join(Join(part=Part.NODE, name="n1", token=secret, request="no request"))
    assert isinstance(answer, Declined)
    assert isinstance(await enrolments.join(join(secret)), Joined)


async def test_who_does_not_lead_names_who_does(room, enrolments):
    secret = await token(room)
    room.lease.lose("cp2")
    answer = await enrolments.join(join(secret))
    assert answer == Refused(reason="this control plane does not lead", leader="cp2:8801")


async def test_a_store_that_is_away_spends_no_token_for_good(room, enrolments):
    secret = await token(room)
    room.store.away = True
    assert isinstance(await enrolments.join(join(secret)), Refused)
    room.store.away = False
    assert isinstance(await enrolments.join(join(secret)), Joined)


async def test_only_a_hash_of_a_token_is_stored(room, enrolments):
    secret = await token(room)
    stored = (await room.store.load_trust()).tokens
    assert [one.id for one in stored] == [secret[:11]]
    assert secret[11:] not in repr(stored)
    assert all(secret[11:] not in event.message for event in await room.store.load_events(limit=10))


async def test_a_node_may_not_speak_for_another_and_no_gateway_for_a_node(room, enrolments):
    await enrolments.join(join(await token(room)))
    assert "is of node n1, not of node n2" in (enrolments.refuse(hello("n2"), holder(room)) or "")
    gateway = Identity(part=Part.GATEWAY, name="n1")
    assert "is of gateway n1" in (enrolments.refuse(hello("n1"), holder(room, gateway)) or "")
    assert "show a certificate" in (enrolments.refuse(hello("n1"), None) or "")


async def test_a_removed_node_is_refused_and_gets_no_new_certificate(room, enrolments):
    await room.put_node("n1")
    await enrolments.join(join(await token(room)))
    await node_intents.remove(room.fleet, room.clock, "n1", actor="lt_op")
    assert "not known here" in (enrolments.refuse(hello(), holder(room)) or "")
    _, request = new_request(N1)
    assert isinstance(await enrolments.renew(Renew(request=request), holder(room)), Declined)


async def test_a_removed_gateway_is_refused(room, enrolments):
    gateway = Identity(part=Part.GATEWAY, name="g1")
    await enrolments.join(join(await token(room, Part.GATEWAY, "g1"), Part.GATEWAY, "g1"))
    assert enrolments.judge(holder(room, gateway)) is None
    await join_tokens.remove_gateway(room.fleet, room.clock, "g1", actor="lt_op")
    assert enrolments.judge(holder(room, gateway)) is not None
    with pytest.raises(NotFound):
        await join_tokens.remove_gateway(room.fleet, room.clock, "g1", actor="lt_op")


async def test_after_joining_anew_the_old_certificate_is_refused(room, enrolments):
    await enrolments.join(join(await token(room)))
    old = holder(room)
    room.clock.advance(3600)
    await enrolments.join(join(await token(room)))
    assert "joined anew" in (enrolments.refuse(hello(), old) or "")
    assert enrolments.refuse(hello(), holder(room)) is None


async def test_a_standby_renews_too(room, enrolments):
    await enrolments.join(join(await token(room)))
    room.lease.lose("cp2")
    _, request = new_request(N1)
    assert isinstance(await enrolments.renew(Renew(request=request), holder(room)), Joined)


async def test_a_standby_renews_for_nobody_who_was_removed_a_moment_ago(room, enrolments):
    await enrolments.join(join(await token(room)))
    await room.store.leader(room.lease.fence()).apply([DeleteEnrolment(id="node/n1")])
    room.lease.lose("cp2")
    _, request = new_request(N1)
    assert isinstance(await enrolments.renew(Renew(request=request), holder(room)), Declined)


async def test_a_standby_whose_store_is_away_renews_for_nobody(room, enrolments):
    await enrolments.join(join(await token(room)))
    room.lease.lose("cp2")
    room.store.away = True
    _, request = new_request(N1)
    assert isinstance(await enrolments.renew(Renew(request=request), holder(room)), Refused)


async def test_nothing_is_signed_for_who_has_no_token(room, enrolments, trust, monkeypatch):
    signed = []
    monkeypatch.setattr(trust.authority, "certify", lambda *request, **_: signed.append(request))
    assert isinstance(await enrolments.join(join("lj_guessed")), Declined)
    assert signed == []


async def test_names_that_are_none_get_no_token(room, enrolments):
    for name in ("", "a/b", "ü", "-a", "a" * 64):
        with pytest.raises(InvalidInput) as caught:
            await token(room, name=name)
        assert caught.value.field == "name"


async def test_a_cluster_without_mutual_tls_makes_no_tokens(room):
    with pytest.raises(Conflict, match="no authority"):
        await token(room)


async def test_tokens_that_outlived_their_use_are_forgotten(room, enrolments):
    old = await token(room)
    room.clock.advance(timedelta(days=2).total_seconds())
    new = await token(room, name="n2")
    assert [one.id for one in room.fleet.join_tokens] == [new[:11]]
    assert old != new


def names(certificate):
    """Give what people may reach the holder by."""
    found = x509.load_pem_x509_certificate(certificate.encode()).extensions
    shown = found.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*shown.get_values_for_type(x509.DNSName), *map(str, shown.get_values_for_type(x509.IPAddress))}


LOCAL = {"127.0.0.1", "::1", "localhost"}


async def test_a_gateways_certificate_names_what_its_token_says_and_so_does_the_renewed_one(room, enrolments):
    wanted = CreateJoinToken(part=Part.GATEWAY, name="edge", hosts=("llm.example.org", "10.0.0.7"))
    made = await join_tokens.create(room.fleet, room.clock, wanted, actor="lt_op")
    joined = await enrolments.join(join(read_ticket(made.token).secret, Part.GATEWAY, "edge"))
    assert names(joined.certificate) == {*LOCAL, "llm.example.org", "10.0.0.7"}

    edge = Identity(part=Part.GATEWAY, name="edge")
    renewed = await enrolments.renew(Renew(request=new_request(edge)[1]), holder(room, edge))
    assert names(renewed.certificate) == {*LOCAL, "llm.example.org", "10.0.0.7"}


async def test_nobody_is_to_reach_a_node_by_name(room, enrolments):
    assert names((await enrolments.join(join(await token(room)))).certificate) == set()


@pytest.mark.parametrize(
    ("part", "host"),
    [
        (Part.NODE, "n1.example.org"),
        (Part.SERVER, "cp.example.org"),
        (Part.GATEWAY, "*.example.org"),
        (Part.GATEWAY, "llm.example.org:8000"),
        (Part.GATEWAY, "https://llm.example.org"),
        (Part.GATEWAY, ""),
        (Part.GATEWAY, "a" * 64),
        (Part.GATEWAY, ".".join(["a" * 60] * 5)),
    ],
)
async def test_names_that_are_none_or_not_for_this_part_are_refused(room, enrolments, part, host):
    with pytest.raises(InvalidInput) as caught:
        await join_tokens.create(
            room.fleet, room.clock, CreateJoinToken(part=part, name="x", hosts=(host,)), actor="lt_op"
        )
    assert caught.value.field == "hosts"
    assert not room.fleet.join_tokens
