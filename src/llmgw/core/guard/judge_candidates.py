"""Weights on nodes that llmgw recognises as those of a judge, the best first."""

from collections.abc import Iterable
from typing import NamedTuple

from llmgw.core.guard.judges.recognise import recognise_weights
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.node import Node, Reachability
from llmgw.schema.weights import Weights, WeightsFormat

ORDER = (JudgeFamily.LLAMA_GUARD_3_1B, JudgeFamily.LLAMA_GUARD_3_8B, JudgeFamily.QWEN3_GUARD_GEN)
"""What is taken first when nothing else is said: the small Llama Guard answers fast enough on CPUs."""
NAMES = {
    JudgeFamily.LLAMA_GUARD_3_1B: "Llama Guard 3 1B",
    JudgeFamily.LLAMA_GUARD_3_8B: "Llama Guard 3 8B",
    JudgeFamily.QWEN3_GUARD_GEN: "Qwen3Guard-Gen",
    JudgeFamily.PROMPTED: "a chat model that is told what is not allowed",
}


class Candidate(NamedTuple):
    """One file that could be served as a judge."""

    source: str
    family: JudgeFamily
    nodes: tuple[str, ...]
    """That have it."""
    size_bytes: int


def candidates(nodes: Iterable[Node], wanted: JudgeFamily | None) -> tuple[Candidate, ...]:
    """Give the files of judges, of the family `wanted` only where one is; on most nodes first, then the smallest."""
    found: dict[str, tuple[Weights, JudgeFamily, list[str]]] = {}
    for node in nodes:
        if node.reachability is Reachability.LOST:
            continue
        for weights in node.facts.weights or ():
            family = recognise_weights(weights.path, weights).family
            if family is None or weights.problem is not None or weights.format is not WeightsFormat.GGUF:
                continue
            if wanted in {None, family}:
                found.setdefault(weights.path, (weights, family, []))[2].append(node.id)
    made = (
        Candidate(path, family, tuple(sorted(has)), weights.size_bytes)
        for path, (weights, family, has) in found.items()
        if family in ORDER
    )
    return tuple(sorted(made, key=lambda one: (ORDER.index(one.family), -len(one.nodes), one.size_bytes, one.source)))


def looked_for(nodes: Iterable[Node], wanted: JudgeFamily | None) -> str:
    """Say what was looked for and where, for a refusal."""
    seen = [node for node in nodes if node.reachability is not Reachability.LOST]
    files = {weights.path for node in seen for weights in node.facts.weights or ()}
    families = " or ".join(NAMES[one] for one in ([wanted] if wanted is not None else ORDER))
    where = f"{len(files)} file{'' if len(files) == 1 else 's'} on {len(seen)} node{'' if len(seen) == 1 else 's'}"
    return f"looked for {families} as GGUF, by file name and header, among {where}"
