"""Life of a node: the shown state from two stored facts, intent (the operator's) and reachability (ours)."""

from llmgw.schema.node import Intent, Node, NodeState, Reachability


def shown_state(node: Node) -> NodeState:
    """Give the state people see: the first that applies of lost, unreachable, draining, cordoned, ready.

    Reachability hides the intent and never changes it, so a node that comes back is what its operator wanted.
    """
    if node.reachability is Reachability.LOST:
        return NodeState.LOST
    if node.reachability is Reachability.UNREACHABLE:
        return NodeState.UNREACHABLE
    if node.intent is Intent.DRAINING:
        return NodeState.DRAINING
    if node.intent is Intent.CORDONED:
        return NodeState.CORDONED
    return NodeState.READY


def next_reachability(
    node: Node,
    *,
    silence_s: float,
    unreachable_after_s: float,
    lost_after_s: float,
    may_lose: bool,
    heard: bool = True,
) -> Reachability:
    """Give the node's reachability after `silence_s` seconds without a sign of its agent.

    `heard` is False for a node this leader has not heard at all: its silence counts from the start of the
    leadership, which proves nothing good, so the stored fact can only get worse. `may_lose` is False while the
    node's engines still answer, or while so many nodes vanished that the fault is more likely ours. Only a sign
    of life ends `lost`: its replicas may have been replaced since.
    """
    if silence_s < unreachable_after_s:
        return Reachability.CONNECTED if heard else node.reachability
    if node.reachability is Reachability.LOST:
        return Reachability.LOST
    if silence_s >= lost_after_s and may_lose:
        return Reachability.LOST
    return Reachability.UNREACHABLE
