from llmgw.core.plan_text import plan_text, sentence
from llmgw.schema.plan import Allocation, Constraint, Placement, Plan, Rejection, Removal, Shortfall


def refused(constraint: Constraint, detail: str, count: int = 1, prefix: str = "n") -> list[Rejection]:
    return [Rejection(node=f"{prefix}{n}", constraint=constraint, detail=detail) for n in range(count)]


def test_refusals_are_summed_the_commonest_first():
    rejections = (
        refused(Constraint.WEIGHTS, "lacks the weights /m", 2)
        + refused(Constraint.DEVICE_CLASS, "has no h100-80gb", 7)
        + refused(Constraint.DEVICES_BUSY, "needs 1 h100-80gb, 0 free", 2)
        + refused(Constraint.DEVICES_BUSY, "needs 1 h100-80gb, 0 free, 1 unhealthy", 1)
    )
    assert sentence(rejections, 12) == "12 nodes: 7 have no h100-80gb, 3 full, 2 lack the weights"


def test_one_node_is_told_by_name_and_number():
    memory = refused(Constraint.MEMORY, "needs 12.0 GiB of memory, 3.1 GiB free")
    assert sentence(memory, 1) == "1 node: n0 needs 12.0 GiB of memory, 3.1 GiB free"
    assert sentence(refused(Constraint.NOT_READY, "cordoned"), 1) == "1 node: n0 is cordoned"


def test_each_kind_of_refusal_reads_well_in_one_and_many():
    texts = {
        Constraint.NOT_READY: "lost",
        Constraint.SELECTOR: "is not labelled zone=a",
        Constraint.ENGINE: "has no llamacpp",
        Constraint.WEIGHTS: "lacks the weights /m",
        Constraint.DEVICE_CLASS: "has only 1 h100-80gb",
        Constraint.FABRIC: "is in no fabric",
        Constraint.DEVICES_BUSY: "needs 1 h100-80gb, 0 free",
        Constraint.CORES: "needs 4 cores, 1 free",
        Constraint.MEMORY: "needs 2.0 GiB of memory, 1.0 GiB free",
    }
    one = [text for constraint, detail in texts.items() for text in refused(constraint, detail)]
    assert sentence(one, 9) == (
        "9 nodes: 1 lost, 1 is not labelled zone=a, 1 has no llamacpp, 1 lacks the weights, 1 has only 1 h100-80gb, "
        "1 is in no fabric, 1 full, 1 short of cores, 1 short of memory"
    )
    two = [text for constraint, detail in texts.items() for text in refused(constraint, detail, 2)]
    assert sentence(two, 18) == (
        "18 nodes: 2 lost, 2 are not labelled zone=a, 2 have no llamacpp, 2 lack the weights, 2 have only 1 h100-80gb, "
        "2 are in no fabric, 2 full, 2 short of cores, 2 short of memory"
    )


def test_weights_that_no_node_has_are_named():
    for nodes in (1, 3):
        assert sentence(refused(Constraint.WEIGHTS, "lacks the weights /m/x.gguf", nodes), nodes) == (
            "no node has weights at /m/x.gguf"
        )
    mixed = refused(Constraint.WEIGHTS, "lacks the weights /m") + refused(Constraint.NOT_READY, "lost", prefix="b")
    assert sentence(mixed, 2) == "2 nodes: 1 lost, 1 lacks the weights"


def test_no_nodes_is_said_plainly():
    assert sentence([], 0) == "there are no nodes yet"


def test_an_empty_plan_is_one_line():
    assert plan_text(Plan()) == "nothing to do"


def test_a_plan_reads_as_stops_starts_and_what_is_short():
    placed = (
        Allocation(node="a", cores=1.5, memory_bytes=1024**3, devices=("GPU-1",), fabric="ib"),
        Allocation(node="b", devices=("GPU-1", "GPU-2"), fabric="ib"),
    )
    plan = Plan(
        removals=(Removal(replica="rold", reason="scaled down"),),
        placements=(Placement(model="m", revision=3, allocations=placed),),
        shortfalls=(Shortfall(model="big", missing=2, sentence="there are no nodes yet"),),
    )
    assert plan_text(plan).splitlines() == [
        "stop rold: scaled down",
        "start m (revision 3) on a (1 device, 1.5 cores, 1.0 GiB); b (2 devices); over fabric ib",
        "short big: 2 replicas missing; there are no nodes yet",
    ]
