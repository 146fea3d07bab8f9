import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from llmgw.ports import PutModel, PutNode, PutPolicy
from llmgw.schema.demand import DemandReport, JudgeReport, MetricSample
from llmgw.schema.floating import FloatingState, FloatingStatus
from llmgw.schema.model import Model
from llmgw.schema.node import Replacement
from llmgw.schema.report import Load
from llmgw.schema.store import StoreMember, StoreRole, StoreState
from llmgw.schema.summary import ControlPlaneMember, ControlPlaneState
from llmgw.server.demand import GatewayLive
from llmgw.server.metrics_export import MetricsExport
from llmgw.telemetry.metrics import TABLE
from llmgw.testing.control_room import GIB, ControlRoom
from llmgw.testing.guard_policies import policy, rule


@pytest.fixture
async def room():
    room = ControlRoom()
    await room.open()
    return room


def _values(export: MetricsExport) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(export.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def _report(room: ControlRoom, *samples: MetricSample, seq: int = 1) -> None:
    room.board.connect(GatewayLive(name="g1", version="1", pid=1, connected_at=room.clock.monotonic()))
    room.board.report(DemandReport(gateway="g1", seq=seq, metrics=samples))


async def test_every_exported_metric_is_in_the_table(room):
    room.hear(await room.put_node(), load=Load(age_s=0.0, cpu_percent=5.0, load1=0.5))
    await room.put_replica("r1", "m")
    text = MetricsExport(room.fleet).render().decode()
    known = {metric.name for metric in TABLE}
    exported = {line.split()[2].removesuffix("_total") for line in text.splitlines() if line.startswith("# TYPE")}
    assert exported
    assert exported <= known


async def test_who_leads_is_exported(room):
    export = MetricsExport(room.fleet)
    values = _values(export)
    assert (values["llmgw_lease_leader", ()], values["llmgw_lease_epoch", ()]) == (1.0, 1.0)
    assert values["llmgw_lease_renew_age_seconds", ()] == 0.4
    room.lease.lose("control-2")
    values = _values(export)
    assert values["llmgw_lease_leader", ()] == 0.0
    assert ("llmgw_lease_renew_age_seconds", ()) not in values


async def test_a_replicated_store_and_a_floating_address_are_exported_where_there_are_some(room, monkeypatch):
    assert not [name for name, _ in _values(MetricsExport(room.fleet)) if "store_member" in name or "floating" in name]
    members = (
        StoreMember(name="db1", host="a", role=StoreRole.LEADER, state="running", lag=0),
        StoreMember(name="db2", host="b", role=StoreRole.REPLICA, state="running", lag=-1, problem="it is stopping"),
    )
    store = StoreState(members=members, problem="no synchronous standby")
    address = FloatingStatus(address="192.0.2.1", state=FloatingState.ON_LEADER, up=True)
    monkeypatch.setattr(room.fleet.surroundings, "store", lambda: store)
    monkeypatch.setattr(room.fleet.surroundings, "floating", lambda: address)
    values = _values(MetricsExport(room.fleet))
    assert values["llmgw_store_replicated", ()] == 0.0
    assert values["llmgw_store_member_ok", (("member", "db1"),)] == 1.0
    assert values["llmgw_store_member_ok", (("member", "db2"),)] == 0.0
    assert values["llmgw_store_member_lag_bytes", (("member", "db1"),)] == 0.0
    assert ("llmgw_store_member_lag_bytes", (("member", "db2"),)) not in values, "an unknown lag is absent"
    assert values["llmgw_floating_address_ok", ()] == 1.0


async def test_control_planes_are_counted_by_what_they_do_and_terms_grow(room, monkeypatch):
    states = (ControlPlaneState.LEADING, ControlPlaneState.NOT_ANSWERING, ControlPlaneState.NOT_ANSWERING)
    members = tuple(
        ControlPlaneMember(name=f"control-{number}", address="http://x", state=state, this=False)
        for number, state in enumerate(states)
    )
    monkeypatch.setattr(room.fleet, "control_planes", lambda: members)
    status = room.lease.status()
    monkeypatch.setattr(room.lease, "status", lambda: replace(status, term=3))
    values = _values(MetricsExport(room.fleet))
    found = [values["llmgw_control_planes", (("state", state.value),)] for state in ControlPlaneState]
    assert found == [1.0, 0.0, 2.0]
    assert values["llmgw_lease_terms_total", ()] == 3.0


async def test_a_nodes_load_is_exported_until_it_is_stale(room):
    node = await room.put_node()
    room.hear(node, load=Load(age_s=0.0, cpu_percent=5.0, load5=0.5, memory_used_bytes=GIB))
    export = MetricsExport(room.fleet)
    values = _values(export)
    assert values["llmgw_node_cpu_utilization_percent", (("node", "n1"),)] == 5.0
    assert values["llmgw_node_load", (("node", "n1"), ("period", "5m"))] == 0.5
    assert values["llmgw_node_memory_used_bytes", (("node", "n1"),)] == GIB
    assert ("llmgw_node_load", (("node", "n1"), ("period", "1m"))) not in values
    room.clock.advance(61)
    values = _values(export)
    assert not [key for key in values if key[0] in {"llmgw_node_cpu_utilization_percent", "llmgw_node_load"}]
    assert values["llmgw_node_cpus", (("node", "n1"),)] == 8.0


async def test_what_is_unknown_is_absent_not_zero(room):
    await room.put_node(memory_bytes=None)
    values = _values(MetricsExport(room.fleet))
    assert not [key for key in values if key[0] == "llmgw_node_memory_bytes"]


async def test_replicas_are_counted_per_model_and_state(room):
    model = Model(name="m", source="/m.gguf", created_at=room.clock.now())
    await room.fleet.write([PutModel(model=model)])
    await room.put_replica("r1", "m")
    values = _values(MetricsExport(room.fleet))
    assert values["llmgw_replicas", (("model", "m"), ("state", "ready"))] == 1.0
    assert values["llmgw_replicas", (("model", "m"), ("state", "failed"))] == 0.0


async def test_restarts_never_count_back_when_a_replica_goes(room):
    await room.put_replica("r1", "m", restart_count=7)
    export = MetricsExport(room.fleet)
    key = ("llmgw_replica_restarts_total", (("model", "m"),))
    assert _values(export)[key] == 0.0
    await room.put_replica("r1", "m", restart_count=9)
    assert _values(export)[key] == 2.0
    await room.put_replica("r1", "other", restart_count=0)
    await room.put_replica("r2", "m", restart_count=1)
    assert _values(export)[key] == 3.0


async def test_gateways_samples_come_out_as_they_were_counted(room):
    labels = (("gateway", "g1"), ("model", "m"))
    buckets = [("10.0", 3.0), ("+Inf", 4.0), ("0.5", 1.0)]
    name = "llmgw_gateway_time_to_first_token_seconds"
    _report(
        room,
        MetricSample(name="llmgw_gateway_retries", labels=labels, value=2.0),
        *(MetricSample(name=f"{name}_bucket", labels=(*labels, ("le", le)), value=value) for le, value in buckets),
        MetricSample(name=f"{name}_count", labels=labels, value=4.0),
        MetricSample(name=f"{name}_sum", labels=labels, value=9.5),
    )
    export = MetricsExport(room.fleet)
    values = _values(export)
    assert values["llmgw_gateway_retries_total", labels] == 2.0
    assert values[f"{name}_count", labels] == 4.0
    lines = [line for line in export.render().decode().splitlines() if line.startswith(f"{name}_bucket")]
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["1.0", "3.0", "4.0"]
    assert values["llmgw_gateways_connected", ()] == 1.0


async def test_a_gateway_that_fell_silent_is_absent(room):
    _report(room, MetricSample(name="llmgw_gateway_retries", labels=(("gateway", "g1"), ("model", "m")), value=2.0))
    room.clock.advance(10)
    assert not [key for key in _values(MetricsExport(room.fleet)) if key[0].startswith("llmgw_gateway_")]


async def test_a_gateway_cannot_add_metrics_or_labels(room):
    _report(
        room,
        MetricSample(name="made_up", labels=(), value=1.0),
        MetricSample(name="llmgw_gateway_retries", labels=(("evil", "x"),), value=1.0),
    )
    text = MetricsExport(room.fleet).render().decode()
    assert "made_up" not in text
    assert "evil" not in text


async def test_this_processes_own_metrics_are_added(room):
    sample = MetricSample(name="llmgw_store_errors", labels=(("call", "apply"), ("code", "fenced")), value=3.0)
    values = _values(MetricsExport(room.fleet, process=lambda: (sample,)))
    assert values["llmgw_store_errors_total", (("call", "apply"), ("code", "fenced"))] == 3.0


async def test_silent_nodes_that_are_not_replaced_are_counted_by_reason(room):
    node = await room.put_node()
    held = replace(node, replacement=Replacement.HELD, silences=(room.clock.now(),))
    await room.fleet.write([PutNode(node=held)])
    values = _values(MetricsExport(room.fleet))
    assert values["llmgw_nodes_not_replaced", (("reason", "held"),)] == 1.0
    assert values["llmgw_nodes_not_replaced", (("reason", "serving"),)] == 0.0
    assert values["llmgw_node_silences", (("node", "n1"),)] == 1.0


async def test_how_judges_do_is_exported_by_the_control_plane_that_leads(room):
    await room.fleet.write([PutPolicy(policy=policy("p", rule(judge="guard")))])
    export = MetricsExport(room.fleet)
    values = _values(export)
    assert values["llmgw_guard_policies", ()] == 1.0
    assert values["llmgw_guard_judge_healthy", (("judge", "guard"),)] == 0.0
    assert values["llmgw_guard_judge_state", (("judge", "guard"), ("state", "absent"))] == 1.0
    assert ("llmgw_guard_judge_waiting", (("judge", "guard"),)) not in values, "nobody says so"
    room.board.report(DemandReport(gateway="g1", seq=1, judges={"guard": JudgeReport(waiting=4)}))
    assert _values(export)["llmgw_guard_judge_waiting", (("judge", "guard"),)] == 4.0
    room.lease.lose("control-2")
    assert not any(name.startswith("llmgw_guard_judge") for name, _ in _values(export))
