"""Invariants of choosing a replica by the work it would have, on random states."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.prefix import BLOCK_BYTES, LEAST_BLOCKS, BelievedCache, chain_of
from llmgw.core.routing import (
    ALIKE,
    ALIKE_S,
    BETA_BUSY,
    Prompt,
    busy_s,
    choose,
    first_token_s,
    own_work,
    prompt_of,
)
from llmgw.schema.model import Routing


@dataclass
class Candidate:
    seed: int
    load: int
    queued: float
    rate: float | None
    slots: int | None
    fill: float | None
    ejected_until: float
    cache: BelievedCache


blocks = st.lists(st.integers(0, 2), min_size=0, max_size=12)


def asked(numbers: list[int]) -> Prompt:
    data = b"".join(bytes([number]) * BLOCK_BYTES for number in numbers)
    return prompt_of(data, chain_of(data, salt=0), short=0)


@st.composite
def candidates(draw):
    cache = BelievedCache()
    for numbers in draw(st.lists(blocks, max_size=3)):
        cache.add(asked(numbers).chain)
    return Candidate(
        seed=draw(st.integers(0, 2**32 - 1)),
        load=draw(st.integers(0, 64)),
        queued=draw(st.floats(0, 1e6)),
        rate=draw(st.none() | st.floats(100, 1e6)),
        slots=draw(st.none() | st.integers(1, 64)),
        fill=draw(st.none() | st.floats(0, 1)),
        ejected_until=draw(st.sampled_from([0.0, 200.0])),
        cache=cache,
    )


fleets = st.lists(candidates(), min_size=1, max_size=8)


def seconds(fleet, one, prompt) -> float:
    """Give the wait at one of them without the weight that spares the others."""
    rates = [each.rate for each in fleet if each.rate is not None]
    rate = one.rate or (sum(rates) / len(rates) if rates else 32_000.0)
    return (one.queued + own_work(one.cache, prompt)) / rate + busy_s(one)


@given(fleets, blocks, st.floats(0, 1e5))
def test_nobody_healthy_is_expected_to_answer_much_sooner_than_who_is_chosen(fleet, numbers, usual):
    prompt = asked(numbers)
    chosen = choose(fleet, prompt, now=100.0, usable=lambda _: True, usual=usual)
    healthy = [one for one in fleet if one.ejected_until <= 100.0] or fleet
    assert chosen in healthy
    costs = dict(zip(map(id, healthy), first_token_s(healthy, prompt, usual=usual), strict=True))
    assert costs[id(chosen)] <= min(costs.values()) * (1 + ALIKE) + ALIKE_S


@given(fleets, blocks, st.floats(0, 1e5))
def test_it_is_never_worse_than_the_least_loaded_by_more_than_the_work_it_spares(fleet, numbers, usual):
    prompt = asked(numbers)
    chosen = choose(fleet, prompt, now=100.0, usable=lambda _: True, usual=usual)
    idle = choose(fleet, prompt, now=100.0, usable=lambda _: True, routing=Routing.LEAST_LOADED)
    healthy = [one for one in fleet if one.ejected_until <= 100.0] or fleet
    rates = [one.rate for one in healthy if one.rate is not None] or [32_000.0]
    spared = (BETA_BUSY - 1) * prompt.size / min(rates)
    there, here = seconds(healthy, idle, prompt), seconds(healthy, chosen, prompt)
    assert here <= (there + spared) * (1 + ALIKE) + ALIKE_S + 1e-9


@given(st.lists(blocks, max_size=60), blocks)
def test_a_cache_never_claims_more_than_was_added_and_claims_what_was_added_last(history, numbers):
    cache, chains = BelievedCache(LEAST_BLOCKS), []
    for one in history:
        chains.append(asked(one).chain)
        cache.add(chains[-1])
    chain = asked(numbers).chain
    known = {block for one in chains for block in one}
    assert cache.depth(chain) <= sum(block in known for block in chain)
    if chains:
        assert cache.depth(chains[-1]) == len(chains[-1])


@given(st.binary(max_size=5000), st.integers(0, 5000), st.integers(0, 2**64 - 1))
def test_a_prompt_that_goes_on_keeps_the_chain_of_its_beginning(data, cut, salt):
    whole, beginning = chain_of(data, salt=salt), chain_of(data[:cut], salt=salt)
    assert whole[: len(beginning)] == beginning
