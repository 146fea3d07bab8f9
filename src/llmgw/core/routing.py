"""Which replica is asked. By default the one whose answer should begin first, as far as a gateway can tell.

Work is counted in bytes of prompts that a replica does not have in its cache: no tokenizer is needed, and only ratios
matter. What a replica costs is an estimate of seconds until its first token (facts on routing, 1.2 and 1.3):

    (queued + beta * own) / rate + what its open requests cost

`queued`: bytes of others' prompts there that are not computed yet; `own`: those of this prompt that it would have to
compute; `rate`: bytes of prompt it was seen to compute a second. `beta` above 1 spends some waiting to keep the work of
all replicas together low.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from llmgw.core.prefix import BLOCK_BYTES, BelievedCache, Chain
from llmgw.schema.model import Routing
from llmgw.schema.value import Value

BETA_IDLE, BETA_BUSY = 2.0, 6.0
"""Weights of the own work where nothing is queued, and where each replica has a usual prompt queued, or more. On the
Mooncake traces 2 gives the shortest waits at little load, and 6 halves them at twice what the replicas can bear."""
BUSY_S = 0.02
"""What an open request costs: it decodes beside the prompt. Anything from 5 to 200 ms gives the same on the traces."""
USUAL_SLOTS = 8
"""Slots with which an open request costs just that: of two replicas with slots, the emptier one costs less."""
PRESSURE_S = 0.02
"""What a replica costs that is half full; one that is nine tenths full costs nine times as much."""
FULLEST = 0.98
RATE = 32_000.0
"""Bytes of prompt a second where nothing was seen of any replica yet: some 8,000 tokens."""
SAME_RATE = 1.5
"""Replicas that seem to differ less in speed are taken for the same hardware."""
ALIKE = 0.05
ALIKE_S = 0.001
"""Costs that differ by no more (as a share of the lower one, or in seconds) are alike: estimates are no better."""
AFFINITY_BLOCKS = 8
"""So much of a prompt's beginning decides between replicas that are alike."""

_WORD = (1 << 64) - 1


class Prompt(Value, frozen=True):
    """What a choice looks at of a request."""

    size: int = 0
    """Bytes of the prompt."""
    chain: Chain = ()
    affinity: int = 0
    """Decides between replicas that are alike; the same for prompts with the same beginning."""


class Candidate(Protocol):
    """What a choice looks at of a replica."""

    load: int
    """Open requests there, those of other gateways too."""
    queued: float
    """Bytes of their prompts that it has not computed yet."""
    rate: float | None
    """Bytes of prompt it computes a second; `None`: not seen yet."""
    slots: int | None
    fill: float | None
    """Share of its cache that open requests fill, as its engine tells; `None`: unknown."""
    cache: BelievedCache
    seed: int

    @property
    def ejected_until(self) -> float:
        """Until when it is left out where there are others."""


C = TypeVar("C", bound=Candidate)


def prompt_of(data: bytes | memoryview, chain: Chain, *, short: int) -> Prompt:
    """Describe a prompt. `short` decides between replicas that are alike where it has less than a block."""
    affinity = chain[min(AFFINITY_BLOCKS, len(chain)) - 1] if chain else short
    return Prompt(size=len(data), chain=chain, affinity=affinity)


def choose(
    candidates: Iterable[C],
    prompt: Prompt,
    *,
    now: float,
    usable: Callable[[C], bool],
    routing: Routing = Routing.PREFIX,
    usual: float = 0.0,
    turn: int = 0,
) -> C | None:
    """Give the usable candidate that is best; `None` when there is none.

    One that failed lately is taken only when there is no other: half a chance beats none. `usual`: bytes of work of a
    usual prompt of the model; `turn`: how many were chosen before.
    """
    able = [one for one in candidates if usable(one)]
    if len(able) > 1:
        able = [one for one in able if one.ejected_until <= now] or able
    if len(able) < 2:  # noqa: PLR2004 (nothing to choose from)
        return able[0] if able else None
    if routing is Routing.ROUND_ROBIN:
        return able[turn % len(able)]
    if routing is Routing.SESSION:
        return max(able, key=lambda one: _weight(one.seed, prompt.affinity))
    costs = (
        [busy_s(one) for one in able] if routing is Routing.LEAST_LOADED else first_token_s(able, prompt, usual=usual)
    )
    least = min(costs)
    limit = least + max(least * ALIKE, ALIKE_S)
    alike = [one for one, cost in zip(able, costs, strict=True) if cost <= limit]
    if len(alike) == 1:
        return alike[0]
    return min(alike, key=lambda one: (one.load / (one.slots or 1), -_weight(one.seed, prompt.affinity)))


def first_token_s(candidates: Sequence[Candidate], prompt: Prompt, *, usual: float) -> list[float]:
    """Give what each candidate costs, in seconds."""
    rates = [one.rate for one in candidates if one.rate is not None]
    usual_rate = sum(rates) / len(rates) if rates else RATE
    weight = beta(sum(one.queued for one in candidates) / len(candidates), usual=usual)
    return [
        (one.queued + weight * own_work(one.cache, prompt)) / _rate(one, usual_rate) + busy_s(one) for one in candidates
    ]


def _rate(one: Candidate, usual: float) -> float:
    """Give a replica's speed; that of all where it is about the same, for what was seen of one alone is rough."""
    return usual if one.rate is None or usual / SAME_RATE <= one.rate <= usual * SAME_RATE else one.rate


def own_work(cache: BelievedCache, prompt: Prompt) -> int:
    """Give the bytes of a prompt that a replica has to compute."""
    return prompt.size - cache.depth(prompt.chain) * BLOCK_BYTES


def beta(queued: float, *, usual: float) -> float:
    """Weigh the own work, by the bytes queued at a replica on average."""
    return BETA_IDLE + (BETA_BUSY - BETA_IDLE) * min(1.0, queued / max(usual, BLOCK_BYTES))


def busy_s(one: Candidate) -> float:
    """Give what a replica's open requests cost, in seconds."""
    share = one.load / one.slots if one.slots else 0.0
    full = min(max(share, one.fill or 0.0), FULLEST)
    open_requests = share * USUAL_SLOTS if one.slots else one.load
    return BUSY_S * open_requests + PRESSURE_S * full / (1 - full)


def _weight(seed: int, affinity: int) -> int:
    """Mix two numbers into one of 64 evenly spread bits (the finaliser of SplitMix64)."""
    word = (seed ^ affinity * 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _WORD
    return word ^ word >> 31
