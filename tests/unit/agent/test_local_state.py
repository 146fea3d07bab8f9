import stat

import pytest

from llmgw.agent.local_state import LocalState, ShardRecord
from llmgw.agent.obeyed import Obeyed
from llmgw.agent.process_group import Identity
from llmgw.schema.errors import Conflict, InvalidInput
from llmgw.schema.report import Death
from llmgw.testing.clock import FakeClock
from llmgw.testing.engine_process import shard_for


@pytest.fixture
def state(tmp_path):
    state = LocalState(str(tmp_path / "agent"))
    state.open()
    yield state
    state.close()


def record(**more):
    return ShardRecord(desired=shard_for("/m.gguf"), started_at=FakeClock().now(), **more)


def test_everything_comes_back_as_it_was_written(state):
    identity = Identity(name="a", pid=1, start_ticks=2, boot_id="b", cgroup="/c")
    whole = record(
        identity=identity,
        endpoint="http://127.0.0.1:1",
        ready=True,
        slots=4,
        context=256,
        stopping=True,
        death=Death(status=-9, asked=False, cause="killed"),
    )
    state.save_record(whole)
    state.save_obeyed(Obeyed(epoch=3, holder="h", generation=7))
    state.save_servers(("a:1", "b:2"))
    state.save_door_process(identity)
    again = LocalState(str(state.root))
    assert again.records() == (whole,)
    assert again.obeyed() == Obeyed(epoch=3, holder="h", generation=7)
    assert again.servers() == ("a:1", "b:2")
    assert again.door_process() == identity


def test_nothing_written_is_nothing_known(state):
    assert state.records() == ()
    assert state.obeyed() == Obeyed()
    assert state.servers() == ()
    assert state.door_process() is None


def test_keys_of_engines_are_private(state):
    state.save_record(record())
    (path,) = (state.root / "shards").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.root.stat().st_mode) == 0o700


def test_a_removed_record_is_gone_and_removing_twice_is_nothing(state):
    state.save_record(record())
    state.remove_record(record().desired.id)
    state.remove_record(record().desired.id)
    assert state.records() == ()


def test_a_damaged_file_costs_only_itself(state):
    state.save_record(record())
    (state.root / "shards" / "broken.json").write_text("{")
    (state.root / "epoch.json").write_text('{"epoch": "x"}')
    assert state.records() == (record(),)
    assert state.obeyed() == Obeyed()


def test_a_second_agent_in_the_same_folder_is_refused(state):
    second = LocalState(str(state.root))
    with pytest.raises(Conflict, match="another agent runs"):
        second.open()
    state.close()
    second.open()
    second.close()


def test_a_nodes_id_is_chosen_once(state):
    assert state.node_id("n1") == "n1"
    assert state.node_id(None) == "n1"
    with pytest.raises(InvalidInput, match="joined as 'n1'"):
        state.node_id("n2")


def test_a_node_without_a_configured_id_takes_its_host_name(state, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "host-7")
    assert state.node_id(None) == "host-7"
