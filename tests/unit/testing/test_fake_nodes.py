import pytest

from llmgw.relay.errors import UpstreamBroken
from llmgw.relay.upstream import Endpoint, UpstreamPool
from llmgw.schema.desired import DesiredShard, DesiredState, Mode
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Profile, Role
from llmgw.schema.plan import Allocation
from llmgw.schema.replica import ShardPhase
from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.fake_nodes_process import read_groups


@pytest.fixture
async def fleet():
    """Three nodes that find no control plane: nothing listens there."""
    groups = [NodeGroup(kind="cpu-small", count=2, name="n"), NodeGroup(kind="h100x8")]
    async with FakeFleet(groups, server="127.0.0.1:1", token="t") as one:
        yield one


async def test_nodes_are_named_after_their_group_or_their_kind(fleet):
    assert set(fleet.members) == {"n-001", "n-002", "h100x8-001"}


async def test_commands_take_numbers_names_or_everybody(fleet):
    assert fleet.command("freeze 1").startswith("3 nodes: 2 healthy, 1 frozen; ")
    assert fleet.command("kill n-002").startswith("3 nodes: 1 healthy, 1 frozen, 1 dead; ")
    assert fleet.command("partition").startswith("3 nodes: 1 frozen, 1 partitioned, 1 dead; ")
    assert fleet.command("heal 1").startswith("3 nodes: 1 healthy, 1 partitioned, 1 dead; ")
    assert fleet.command("heal").startswith("3 nodes: 3 healthy; ")
    assert fleet.command("").startswith("3 nodes: 3 healthy; ")


@pytest.mark.parametrize("line", ["explode 1", "freeze nobody"])
async def test_a_wrong_command_says_what_there_is(fleet, line):
    with pytest.raises(InvalidInput) as refused:
        fleet.command(line)
    assert refused.value.hint


async def test_nobody_there_is_told(fleet):
    with pytest.raises(InvalidInput, match=r"0 of 3 nodes joined 127\.0\.0\.1:1"):
        await fleet.joined(deadline_s=0.05)


async def test_two_groups_may_not_share_a_name():
    groups = [NodeGroup(kind="cpu-small"), NodeGroup(kind="cpu-small")]
    with pytest.raises(InvalidInput, match="two nodes are named cpu-small-001"):
        await FakeFleet(groups, server="127.0.0.1:1", token="t").__aenter__()


async def test_doors_answer_for_shards_that_are_ready_and_for_no_others(fleet, desired):
    node = fleet.members["n-001"].node
    node.obey(desired("r1.0", model="tiny"))
    pool = UpstreamPool()

    async def ask(shard):
        host, port = fleet.doors.address.split(":")
        response = await pool.request(
            Endpoint(host, int(port)),
            method="POST",
            path=f"/shards/{shard}/v1/chat/completions",
            headers=[(b"content-type", b"application/json")],
            body=b'{"model":"tiny","messages":[]}',
            first_byte_timeout_s=5,
        )
        body = await response.read(1 << 20)
        return response.status, body

    assert (await ask("r1.0"))[0] == 503, "it starts"
    node.step()
    assert node.reports()[0].phase is ShardPhase.READY
    status, body = await ask("r1.0")
    assert (status, b" 1 2 3" in body) == (200, True)
    assert (await ask("r2.0"))[0] == 503
    fleet.command("kill n-001")
    with pytest.raises(UpstreamBroken):
        await ask("r1.0")
    assert fleet.doors.answered() == 1
    pool.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fleet.toml", '[[nodes]]\nkind = "h100x8"\ncount = 3\nfabric = "ib-a"\nweights = ["/m.gguf"]\n'),
        ("fleet.yaml", "nodes: [{kind: h100x8, count: 3, fabric: ib-a, weights: [/m.gguf]}]"),
    ],
)
def test_a_fleet_is_read_from_toml_and_yaml(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_groups(tmp_path / name) == (NodeGroup(kind="h100x8", count=3, fabric="ib-a", weights=("/m.gguf",)),)


@pytest.mark.parametrize(
    ("name", "text"), [("f.toml", "[[nodes]]\ncount = 1\n"), ("f.yaml", "nodes: 3"), ("f.yml", ":")]
)
def test_a_broken_file_is_told_with_its_name(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=name):
        read_groups(tmp_path / name)


@pytest.fixture
def desired():
    def make(shard, *, model):
        wanted = DesiredShard(
            id=shard,
            replica=shard[:-2],
            model=model,
            rank=0,
            attempt=1,
            key="k",
            role=Role.CHAT,
            source="/m.gguf",
            profile=Profile(),
            allocation=Allocation(node="n-001"),
        )
        return DesiredState(epoch=1, holder="h", generation=1, mode=Mode.ENFORCE, shards=(wanted,))

    return make
