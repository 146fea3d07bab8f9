"""Mass protection: when many nodes fall silent together, the fault is more likely in between, and nothing is replaced.

A crowd is at least three nodes and a third of a group that fall silent within a minute; groups are racks, sites,
fabrics and the whole fleet. Its nodes are held: none of them is declared lost. While a third of a group is held, none
of its other nodes is either. A crowd is back once fewer than three of it are away; who is left counts on its own.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from llmgw.schema.node import Node, Reachability, Replacement

CROWD = 3
"""Nodes that are a crowd at least (facts on availability, section 3.2)."""
CROWD_SHARE = 3
"""A crowd is one in so many of its group at least."""
TOGETHER = timedelta(seconds=60)
GROUP_LABELS = ("rack", "site")
"""Labels whose values name groups of nodes that fail together."""


class Group(NamedTuple):
    """Nodes that may fail together."""

    kind: str
    """`rack`, `site`, `fabric`, or `fleet` for all nodes."""
    name: str

    def __str__(self) -> str:
        return "the fleet" if self.kind == "fleet" else f"{self.kind} {self.name}"


class Crowd(NamedTuple):
    """Nodes of one group that fell silent together."""

    group: Group
    silent: int
    total: int
    """Nodes that were there before."""


FLEET = Group("fleet", "")


def groups_of(node: Node) -> tuple[Group, ...]:
    """Give the groups a node fails together with."""
    labels = tuple(Group(label, node.facts.labels[label]) for label in GROUP_LABELS if label in node.facts.labels)
    return (FLEET, *labels, *(Group("fabric", fabric.name) for fabric in node.facts.fabrics))


def crowds(nodes: Iterable[Node], now: datetime) -> tuple[Crowd, ...]:
    """Give the groups of which a crowd fell silent within the last minute."""
    nodes = tuple(nodes)
    if not any(_fell_silent(node, now) for node in nodes):
        return ()
    silent: Counter[Group] = Counter()
    total: Counter[Group] = Counter()
    for node in nodes:
        fresh = _fell_silent(node, now)
        if not fresh and node.reachability is not Reachability.CONNECTED:
            continue
        for group in groups_of(node):
            total[group] += 1
            silent[group] += fresh
    return tuple(Crowd(group, silent[group], total[group]) for group in total if _is_crowd(silent[group], total[group]))


def protected(nodes: Iterable[Node]) -> tuple[Crowd, ...]:
    """Give the groups in which no node is declared lost now; `silent` counts held nodes."""
    return tuple(crowd for crowd in _held_groups(nodes) if _is_crowd(crowd.silent, crowd.total))


def away_together(nodes: Iterable[Node]) -> Crowd | None:
    """Give the smallest group that has all held nodes in it; `None` when none is held."""
    groups = _held_groups(nodes)
    most = max((crowd.silent for crowd in groups), default=0)
    return min((crowd for crowd in groups if crowd.silent == most), key=lambda crowd: crowd.total, default=None)


def sentence(crowd: Crowd) -> str:
    """Tell operators of held nodes."""
    return (
        f"{crowd.silent} of {crowd.total} nodes of {crowd.group} fell silent together: none of them is replaced until "
        "they are back, or until llmgw ctl node replace-silent says so"
    )


def hold(nodes: tuple[Node, ...], now: datetime) -> tuple[Node, ...]:
    """Hold the nodes of crowds, and let go those whose crowd is back."""
    struck = {crowd.group for crowd in crowds(nodes, now)}
    if struck:
        nodes = tuple(_held(node, now) if _is_of(node, struck) and _fell_silent(node, now) else node for node in nodes)
    if not any(node.replacement is Replacement.HELD for node in nodes):
        return nodes
    groups = {crowd.group for crowd in _held_groups(nodes) if crowd.silent >= CROWD}
    return tuple(
        marked(node, Replacement.ALLOWED, now)
        if node.replacement is Replacement.HELD and not _is_of(node, groups)
        else node
        for node in nodes
    )


def marked(node: Node, replacement: Replacement, now: datetime) -> Node:
    """Give the node with another mark; the same node when it has it already."""
    if node.replacement is replacement:
        return node
    return replace(node, replacement=replacement, replacement_since=now)


def released(node: Node, now: datetime) -> Node:
    """Give the node after an operator said that silent nodes may be replaced."""
    return marked(node, Replacement.RELEASED, now) if node.replacement is Replacement.HELD else node


def _held_groups(nodes: Iterable[Node]) -> tuple[Crowd, ...]:
    """Count the held nodes of each group that has any; `total` counts all its nodes."""
    nodes = tuple(nodes)
    if not any(node.replacement is Replacement.HELD for node in nodes):
        return ()
    held: Counter[Group] = Counter()
    total: Counter[Group] = Counter()
    for node in nodes:
        for group in groups_of(node):
            total[group] += 1
            held[group] += node.replacement is Replacement.HELD
    return tuple(Crowd(group, held[group], total[group]) for group in total if held[group])


def _held(node: Node, now: datetime) -> Node:
    return node if node.replacement is Replacement.SERVING else marked(node, Replacement.HELD, now)


def _is_of(node: Node, groups: Iterable[Group]) -> bool:
    return not set(groups).isdisjoint(groups_of(node))


def _fell_silent(node: Node, now: datetime) -> bool:
    """True for a node that fell silent within the last minute and was not released since."""
    since = node.reachability_since
    if node.reachability is not Reachability.UNREACHABLE or node.replacement is Replacement.RELEASED or since is None:
        return False
    return timedelta(0) <= now - since <= TOGETHER


def _is_crowd(silent: int, total: int) -> bool:
    return silent >= CROWD and silent * CROWD_SHARE >= total
