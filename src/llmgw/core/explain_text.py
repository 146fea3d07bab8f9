"""Explanations as lines."""

from collections.abc import Iterator

from llmgw.core.amounts import counted
from llmgw.schema.admin.explain import Change, Explanation


def explain_text(told: Explanation) -> str:
    """Give an explanation as lines: the verdict, the sieve, the closest nodes, and what would help."""
    lines = [told.verdict, "", *_sieve(told)]
    if told.closest:
        lines += ["", "closest nodes"]
        lines += [f"  {near.node}: {'; '.join(near.lacks) or 'fits by itself'}" for near in told.closest]
    if told.changes:
        lines += ["", "any one of these would make one more replica fit, the smallest first"]
        lines += [line for number, change in enumerate(told.changes, 1) for line in _change(number, change)]
    elif told.missing:
        lines += ["", "no single change was found that would make it fit"]
    return "\n".join(lines)


def _sieve(told: Explanation) -> Iterator[str]:
    yield f"one shard, sifted through {counted(told.nodes, 'node')}"
    yield from (f"  {sieve.sentence}" for sieve in told.sieves)
    yield f"  {told.fitting} could take one now"


def _change(number: int, change: Change) -> Iterator[str]:
    yield f"  {number}. {change.text}"
    yield from (f"     {command}" for command in change.commands)
