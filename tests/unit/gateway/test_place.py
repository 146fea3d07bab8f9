import time

import pytest

from llmgw.core.prefix import BLOCK_BYTES, chain_of
from llmgw.core.routing import RATE, Prompt, prompt_of
from llmgw.gateway.place import Place
from llmgw.gateway.routes_view import Target
from llmgw.gateway.usage import UsageMeter
from llmgw.testing.gateway_room import a_replica

SIZE = 64 * BLOCK_BYTES


def a_target() -> Target:
    return Target("tiny", a_replica("r1", "http://127.0.0.1:9001"), near=True)


def a_prompt(text: bytes = b"ab") -> Prompt:
    data = text * (SIZE // len(text))
    return prompt_of(data, chain_of(data, salt=0), short=0)


def placed(target, prompt=None):
    left = []
    return Place(target, prompt or a_prompt(), left.append), left


def test_work_counts_from_the_choice_to_the_first_token_and_the_request_to_its_end():
    target = a_target()
    place, left = placed(target)
    assert (target.load, target.queued, place.believed) == (1, SIZE, 0.0)
    with place:
        place.began()
        assert (target.load, target.queued, left) == (1, 0, [])
    assert (target.load, target.queued, left) == (0, 0, [place])


def test_a_request_that_fails_before_its_first_token_leaves_nothing_behind():
    target = a_target()
    place, left = placed(target)
    with pytest.raises(OSError, match="broke"), place:
        raise OSError("broke")
    assert (target.load, target.queued, target.rate, left) == (0, 0, None, [place])


def test_the_second_prompt_with_a_beginning_costs_only_its_end():
    target = a_target()
    placed(target)
    place, _ = placed(target)
    assert (place.own, place.believed) == (0, 1.0)


def test_a_first_token_tells_how_fast_prompts_are_computed_and_a_short_prompt_tells_nothing():
    target = a_target()
    short, _ = placed(target, Prompt(size=BLOCK_BYTES))
    short.began()
    assert target.rate is None
    place, _ = placed(target)
    assert place.expected_s() == SIZE / RATE
    time.sleep(0.01)
    place.began()
    assert 0 < target.rate <= SIZE / 0.01


def test_what_an_engine_says_of_its_cache_mends_the_belief_and_silence_does_not():
    target = a_target()
    placed(target)
    before = target.cache.blocks
    place, _ = placed(target)
    meter = UsageMeter()
    meter.read(b'{"usage": {"prompt_tokens": 100, "completion_tokens": 1}}')
    place.told(meter)
    assert target.cache.blocks == before
    meter.read(
        b'{"usage": {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10}}}'
    )
    place.told(meter)
    assert target.cache.blocks < before
