import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from llmgw.core.observing import OBSERVING_SETTING, written
from llmgw.ports import AppendEvent, PutNode, PutSetting
from llmgw.schema.admin.model import ServeModel
from llmgw.schema.backup import Observing
from llmgw.schema.event import Event, Severity
from llmgw.schema.floating import FloatingState, FloatingStatus
from llmgw.schema.model import ModelStatus, Parked, Role
from llmgw.schema.replica import ReplicaState, Restart
from llmgw.schema.report import Load
from llmgw.schema.store import StoreMember, StoreRole, StoreState
from llmgw.schema.summary import Alarm, AlarmKind, ControlPlaneMember, ControlPlaneState
from llmgw.server.services import models
from llmgw.testing.control_room import GIB


class _Texts(HTMLParser):
    """Collects the text inside of the element with each id, and all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str | None] = []
        self.texts: dict[str, str] = {}
        self.attributes: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in {"meta", "link", "input", "br"}:
            self.open.append(dict(attrs).get("id"))

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        for name in filter(None, self.open):
            self.texts[name] = self.texts.get(name, "") + data


async def _page(browser, path: str = "/") -> _Texts:
    answer = await browser.get(path)
    assert answer.status_code == 200
    parsed = _Texts()
    parsed.feed(answer.text)
    assert parsed.open == [], "every element is closed"
    return parsed


def _words(text: str) -> str:
    return " ".join(text.split())


async def _serve(room, name="org/chat", **fields) -> None:
    await models.serve(room.fleet, room.clock, ServeModel(name=name, source="/m.gguf", **fields), actor="lt_AAAAAAAA")


async def test_an_empty_fleet_says_what_to_do_first(viewer):
    page = await _page(viewer)
    assert "No node has joined yet." in page.texts["needs"]
    assert "llmgw ctl model serve NAME" in page.texts["needs"]
    assert "control-1 leads, epoch 1" in _words(page.texts["control"])


async def test_a_restored_store_says_that_nothing_is_ordered_until_somebody_resumes(room, viewer):
    room.hear(await room.put_node())
    reason = Observing(taken_at=room.clock.now(), since=room.clock.now())
    await room.fleet.write([PutSetting(name=OBSERVING_SETTING, value=written(reason))])
    page = await _page(viewer)
    told = (
        f"Restored from a backup of {room.clock.now():%Y-%m-%d %H:%M} UTC: observing until `llmgw ctl server resume`."
    )
    assert told in _words(page.texts["needs"])


async def test_a_calm_fleet_says_that_nothing_needs_you(room, viewer):
    room.hear(await room.put_node())
    await _serve(room)
    await room.put_replica("r1", "org/chat")
    page = await _page(viewer)
    assert _words(page.texts["needs"]) == "Needs you Nothing needs you."
    assert _words(page.texts["model-org/chat"]).startswith("org/chat ready 1/1 chat llamacpp 4096 –")
    assert "4242" in page.texts["replica-r1"]


async def test_a_model_that_is_ready_after_failed_starts_needs_nobody(room, viewer):
    room.hear(await room.put_node())
    await _serve(room)
    await room.put_status(ModelStatus(model="org/chat", failures=2, last_failure="it crashed"))
    assert "org/chat does not start (2 failed starts)" in (await _page(viewer)).texts["needs"]
    await room.put_replica("r1", "org/chat")
    assert _words((await _page(viewer)).texts["needs"]) == "Needs you Nothing needs you."


async def test_a_ready_model_comes_with_a_call_to_copy(room, viewer):
    await _serve(room)
    await room.put_replica("r1", "org/chat")
    page = await _page(viewer)
    assert page.texts["base-url"] == "http://llm.example.org:8000/v1"
    assert "http://llm.example.org:8000/v1/chat/completions" in page.texts["curl"]
    assert '"model": "org/chat"' in page.texts["curl"]


async def test_where_nothing_chats_the_call_is_an_embedding(room, viewer):
    await _serve(room, "e", role=Role.EMBED)
    await room.put_replica("r1", "e")
    assert "/v1/embeddings" in (await _page(viewer)).texts["curl"]


async def test_trouble_stands_first_in_words_with_what_to_do(room, viewer):
    parked = Parked(failures=5, reason="unknown flag --x", since=room.clock.now())
    await _serve(room, "a")
    await _serve(room, "b")
    await room.put_status(ModelStatus(model="a", failures=5, parked=parked))
    await room.put_status(ModelStatus(model="b", unplaceable="3 nodes: 3 lack the weights"))
    page = await _page(viewer)
    assert "a is parked after 5 failed starts: unknown flag --x." in page.texts["need-model-a"]
    assert "llmgw ctl model unpark a" in page.texts["need-model-a"]
    assert "b has 0 of 1 replicas and fits nowhere: 3 nodes: 3 lack the weights." in page.texts["need-model-b"]
    assert page.texts["needs"].index("b has 0") < page.texts["needs"].index("No node has joined")


async def test_a_nodes_load_is_shown_as_bars_and_unknown_is_a_dash(room, viewer):
    room.hear(await room.put_node("n1"), load=Load(age_s=0, cpu_percent=36.6, memory_used_bytes=4 * GIB))
    await room.put_node("n2", memory_bytes=None)
    page = await _page(viewer)
    assert "37 % of 8" in _words(page.texts["node-n1"])
    assert "4.0 GiB of 16.0 GiB" in _words(page.texts["node-n1"])
    assert ("svg", "aria-valuenow", "36.6") in page.attributes
    assert "– of 8 – of – –" in _words(page.texts["node-n2"])


async def test_a_load_over_a_minute_old_is_a_dash_and_what_the_node_has_stays(room, viewer):
    room.hear(await room.put_node("n1"), load=Load(age_s=0, cpu_percent=36.6, memory_used_bytes=4 * GIB))
    room.clock.advance(60.5)
    page = await _page(viewer)
    assert "– of 8 – of 16.0 GiB" in _words(page.texts["node-n1"])
    assert ("meter", "value", "36.6") not in page.attributes


async def test_a_restart_is_shown_with_its_reason(room, viewer):
    restart = Restart(at=room.clock.now(), reason="killed by signal 9")
    await room.put_replica("r1", "m", restarts=(restart,), restart_count=1)
    room.clock.advance(125)
    page = await _page(viewer)
    assert "last restart 2 min ago: killed by signal 9" in _words(page.texts["replica-r1"])


async def test_texts_from_outside_are_text(room, viewer):
    evil = "<script>alert(1)</script>"
    await room.put_replica("r1", "m", state=ReplicaState.FAILED, reason=evil)
    event = Event(at=room.clock.now(), kind="t", severity=Severity.ERROR, message=evil)
    await room.fleet.write([AppendEvent(event=event)])
    answer = await viewer.get("/")
    assert evil not in answer.text
    assert answer.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2


async def test_a_store_that_is_away_does_not_take_the_page_with_it(room, viewer):
    await room.put_node()
    room.store.away = True
    page = await _page(viewer)
    assert "Events cannot be read now" in page.texts["events"]
    assert "n1" in page.texts["nodes"]


async def test_a_standby_says_who_leads(room, viewer):
    room.lease.lose("control-2")
    page = await _page(viewer)
    assert "control-1 stands by; control-2 leads" in _words(page.texts["control"])
    assert "This control plane stands by; control-2 leads." in page.texts["needs"]


async def test_where_nobody_leads_that_is_the_first_thing_said(room, viewer):
    room.lease.lose()
    page = await _page(viewer)
    assert "No control plane leads: nothing can change." in page.texts["need-leader"]


async def test_the_part_that_refreshes_is_the_page_without_its_frame(room, viewer):
    await _serve(room)
    whole, part = await viewer.get("/"), await viewer.get("/overview/live")
    assert part.text.strip() in whole.text
    assert part.text.lstrip().startswith(
        '<div id="overview" class="refreshed" hx-get="/overview/live" hx-trigger="every 2s'
    )
    assert 'hx-swap="outerMorph"' in part.text


async def test_nothing_on_a_page_is_inline_and_nothing_comes_from_elsewhere(room, viewer):
    room.hear(await room.put_node(), load=Load(age_s=0, cpu_percent=3))
    await _serve(room)
    await room.put_replica("r1", "org/chat")
    for path in ("/", "/login", "/nothing"):
        answer = await viewer.get(path)
        assert "<style" not in answer.text
        assert re.search(r"<script(?![^>]*\bsrc=)", answer.text) is None
        parsed = _Texts()
        parsed.feed(answer.text)
        for tag, name, value in parsed.attributes:
            assert name != "style"
            assert not name.startswith("on")
            if name in {"src", "href", "action", "hx-get"}:
                assert value is not None
                assert value.startswith(("/", "#")), (tag, name, value)
                assert not value.startswith("//")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


async def test_every_table_has_a_caption_and_headers_with_a_scope(room, viewer):
    await room.put_node()
    await _serve(room)
    await room.put_replica("r1", "org/chat")
    text = (await viewer.get("/")).text
    assert text.count("<table>") == 4
    assert text.count("<caption") == 4
    assert re.findall(r"<th(?! scope=|ead)", text) == []


@pytest.mark.parametrize("path", ["/nothing", "/models/x", "/static/nothing.js", "/static/../app.py"])
async def test_an_unknown_page_is_a_page_with_a_way_back(viewer, path):
    answer = await viewer.get(path)
    assert answer.status_code == 404
    assert '<a href="/">Overview</a>' in answer.text


async def test_a_program_that_asks_for_an_unknown_page_gets_the_error_shape(viewer):
    answer = await viewer.get("/nothing", headers={"accept": "*/*"})
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"code", "message", "hint", "field", "allowed"}


async def test_a_page_that_takes_no_form_says_so(viewer):
    assert (await viewer.post("/")).status_code == 405


async def test_pages_are_not_kept_by_anybody(viewer):
    assert (await viewer.get("/")).headers["cache-control"] == "no-store"


async def test_several_control_planes_their_address_and_their_store_are_shown_with_what_is_wrong(
    viewer, room, monkeypatch
):
    planes = (
        ControlPlaneMember(name="cp1", address="http://a:8800", state=ControlPlaneState.LEADING, this=True),
        ControlPlaneMember(name="cp2", address="http://b:8800", state=ControlPlaneState.NOT_ANSWERING, this=False),
    )
    members = (
        StoreMember(name="db1", host="10.0.0.1", role=StoreRole.LEADER, state="running", lag=0),
        StoreMember(
            name="db2", host="10.0.0.2", role=StoreRole.UNKNOWN, state="not answering", lag=-1, problem="it is silent"
        ),
    )
    store = StoreState(members=members, problem="no synchronous standby")
    address = FloatingStatus(address="192.0.2.1", state=FloatingState.NOWHERE, problem="192.0.2.1 is on no host")
    monkeypatch.setattr(room.fleet, "control_planes", lambda: planes)
    monkeypatch.setattr(room.fleet.surroundings, "store", lambda: store)
    monkeypatch.setattr(room.fleet.surroundings, "floating", lambda: address)
    page = await _page(viewer)
    assert _words(page.texts["plane-cp2"]) == "cp2not answeringhttp://b:8800"
    assert _words(page.texts["floating"]) == "Floating address 192.0.2.1 nowhere"
    assert _words(page.texts["store-db2"]) == "db2unknownnot answeringunknown10.0.0.2it is silent"
    needed = _words(page.texts["needs"])
    for words in ("no synchronous standby", "Store db2: it is silent", "is on no host", "cp2 does not answer"):
        assert words in needed


async def test_a_full_disk_and_a_store_that_refuses_are_what_needs_somebody_first(room, viewer, monkeypatch):
    node = await room.put_node()
    room.hear(node)
    full = Alarm(kind=AlarmKind.DISK_FULL, text="the disk of control-1's data_dir /x is full: make room there")
    monkeypatch.setattr(room.fleet.surroundings, "alarms", lambda: (full,))
    monkeypatch.setattr(room.fleet, "store_problem", lambda: "the store's disk is full: nothing can be written")
    needs = _words((await _page(viewer)).texts["needs"])
    assert "The store does not answer: the store's disk is full: nothing can be written." in needs
    assert "The disk of control-1's data_dir /x is full: make room there." in needs


async def test_a_node_whose_own_disk_is_full_is_named_with_what_is_wrong(room, viewer):
    node = await room.put_node()
    problem = "the disk of the agent's data_dir /y is full"
    await room.fleet.write([PutNode(node=replace(node, facts=replace(node.facts, problems=(problem,))))])
    room.hear(node)
    assert problem in _words((await _page(viewer, "/nodes/n1")).texts["troubles"])
    assert f"Node n1: {problem}." in _words((await _page(viewer)).texts["needs"])
