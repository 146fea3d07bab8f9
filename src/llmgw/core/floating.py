"""Is the floating address where it should be: the words of all hosts, held against an answer through the address."""

from llmgw.schema.floating import FloatingSeen, FloatingState, FloatingStatus, HostWord


def floating_status(seen: FloatingSeen) -> FloatingStatus:
    """Give the address's state and, unless it is as it should be, what to do."""
    holders = tuple(sorted(host.name for host in seen.hosts if host.has_address))
    state = _state(seen, holders)
    return FloatingStatus(
        address=seen.address,
        state=state,
        hosts=holders,
        up=seen.answered_by is not None,
        problem=_problem(seen, state, holders),
    )


def must_remove(own: HostWord, *, leads: bool) -> bool:
    """True when this host should drop the address itself.

    It does not lead, has the address, and no keepalived is there that would take it away (a killed one leaves it).
    """
    return own.has_address and not leads and own.keepalived is False


def _state(seen: FloatingSeen, holders: tuple[str, ...]) -> FloatingState:
    if len(holders) > 1 or (seen.macs or 0) > 1:
        return FloatingState.ON_TWO_HOSTS
    if not holders:
        return FloatingState.UNKNOWN if seen.silent else FloatingState.NOWHERE
    if seen.leader is None:
        return FloatingState.UNKNOWN
    if holders[0] != seen.leader:
        return FloatingState.ELSEWHERE
    if any(host.keepalived is False for host in seen.hosts if host.name == holders[0]):
        return FloatingState.ORPHANED
    if seen.answered_by is None:
        return FloatingState.NOT_REACHABLE
    return FloatingState.ON_LEADER


def _problem(seen: FloatingSeen, state: FloatingState, holders: tuple[str, ...]) -> str | None:
    address, where = seen.address, " and ".join(holders)
    if state is FloatingState.ON_LEADER:
        return None
    if state is FloatingState.ON_TWO_HOSTS:
        place = (
            f"on {where}" if len(holders) > 1 else f"on {where or 'a host'} and on a machine that is no control plane"
        )
        return f"{address} is on two hosts, {place}: restart keepalived on each that does not lead"
    if state is FloatingState.NOWHERE:
        return f"{address} is on no host: look at keepalived on {seen.leader or 'each control plane'}"
    if state is FloatingState.ELSEWHERE:
        return f"{address} is on {where}, which does not lead: look at keepalived there and on {seen.leader}"
    if state is FloatingState.ORPHANED:
        return f"{address} is on {where} without a keepalived: start it, or nobody takes the address away later"
    if state is FloatingState.NOT_REACHABLE:
        return f"{address} is on {where}, but nothing answers there as a leader: look at the network and port"
    if seen.leader is None:
        return f"{address}: nobody leads, so it belongs nowhere now"
    return f"{address} is on none of the hosts that answer; {' and '.join(seen.silent)} did not"
