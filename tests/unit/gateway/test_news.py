import asyncio

import pytest

from llmgw.core.prefix import chain_of, packed
from llmgw.core.routing import Prompt, prompt_of
from llmgw.gateway import news as module
from llmgw.gateway.news import News
from llmgw.gateway.place import Place
from llmgw.gateway.routes_view import Target
from llmgw.gateway.worker_link import NewlyPlaced, Placed, WorkerLoad
from llmgw.testing.gateway_room import a_replica, until

DATA = b"x" * 1024
PROMPT = prompt_of(DATA, chain_of(DATA, salt=0), short=0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "TELL_S", 0.005)


@pytest.fixture
def target():
    return Target("tiny", a_replica("r1", "http://127.0.0.1:9001"), near=True)


async def test_a_request_is_told_with_its_prompt_then_its_first_token_then_its_end_and_nothing_more(target):
    said = []
    news = News(lambda: (target,), said.append)
    with Place(target, PROMPT, lambda _: None) as place:
        news.placed(place)
        await until(lambda: len(said) == 2)
        place.began()
        await until(lambda: len(said) == 3)
    await until(lambda: len(said) == 4)
    await asyncio.sleep(0.03)
    assert said == [
        NewlyPlaced(placed=(Placed(replica="r1", chain=packed(PROMPT.chain)),)),
        WorkerLoad(in_flight={"r1": 1}, queued={"r1": 1024}),
        WorkerLoad(in_flight={"r1": 1}),
        WorkerLoad(),
    ]
    assert [task for task in asyncio.all_tasks() if "tell" in str(task)] == []


async def test_the_same_prompt_again_is_no_news_and_many_prompts_are_one_message(target):
    said = []
    news = News(lambda: (target,), said.append)
    others = [prompt_of(data, chain_of(data, salt=0), short=0) for data in (b"y" * 512, b"z" * 512)]
    places = [Place(target, prompt, lambda _: None) for prompt in (PROMPT, PROMPT, *others)]
    for place in places:
        news.placed(place)
    await until(lambda: len(said) == 2)
    assert [one.chain for one in said[0].placed] == [packed(one.chain) for one in (PROMPT, *others)]
    news.close()


async def test_what_others_have_is_not_told_as_ones_own_and_a_short_prompt_is_no_placement(target):
    said = []
    news = News(lambda: (target,), said.append)
    target.is_elsewhere(4, 500.0)
    with Place(target, Prompt(size=100), lambda _: None) as place:
        news.placed(place)
        await until(lambda: bool(said))
        assert said == [WorkerLoad(in_flight={"r1": 1}, queued={"r1": 100})]
    news.close()
