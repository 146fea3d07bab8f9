"""Models with a minimum of 0, asked by unmodified clients of the openai package through a real `llmgw up`."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

QUESTION = [{"role": "user", "content": "count"}]


@pytest.fixture(scope="module")
def up(new_up: Callable, counting_model) -> Iterator:
    one = new_up()
    one.up("--model", str(counting_model), "--name", "warm")
    return one


@pytest.fixture
def client(up) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0) as made:
        yield made


def serve(up, counting_model, name, *options):
    up.llmgw("ctl", "model", "serve", name, "--source", str(counting_model), "--min", "0", *options)
    # The gateway knows it a moment later.
    up.wait_for(lambda: name in served(up), timeout=30, what=f"{name} is listed")


def served(up):
    with openai.OpenAI(base_url=up.base_url, api_key=up.key) as client:
        return {model.id for model in client.models.list()}


def replicas(up, model):
    return [row for row in up.ctl("replica", "list")["replicas"] if row["model"] == model]


def ask(client, model, **options):
    return client.chat.completions.create(model=model, messages=QUESTION, max_tokens=8, **options)


def test_a_plain_request_starts_its_model_and_is_answered(up, client, counting_model):
    serve(up, counting_model, "plain", "--cores", "0.2")
    assert replicas(up, "plain") == []
    answer = ask(client, "plain")
    assert answer.choices[0].message.content.startswith(" 1 2 3")
    assert [row["state"] for row in replicas(up, "plain")] == ["ready"]


def test_a_streamed_request_starts_its_model_and_is_answered(up, client, counting_model):
    serve(up, counting_model, "streamed", "--cores", "0.2")
    chunks = list(ask(client, "streamed", stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.startswith(" 1 2 3")
    assert chunks[-1].choices[0].finish_reason == "length"


def test_many_requests_at_once_start_one_replica_and_are_all_answered(up, client, counting_model):
    serve(up, counting_model, "crowd", "--cores", "0.2", "--max", "1")
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: ask(client, "crowd"), range(30)))
    assert all(answer.choices[0].message.content.startswith(" 1 2 3") for answer in answers)
    (row,) = replicas(up, "crowd")
    assert row["restart_count"] == 0


def test_a_model_that_fits_nowhere_is_refused_with_the_reason_and_shown_as_short(up, client, counting_model):
    serve(up, counting_model, "huge", "--cores", "500")
    assert up.ctl("status")["models"]["short"] == 0
    with pytest.raises(openai.APIStatusError) as refused:
        ask(client, "huge")
    assert refused.value.status_code == 503
    assert refused.value.body["code"] == "model_unavailable"
    assert "cores" in refused.value.body["message"]
    began = time.monotonic()
    with pytest.raises(openai.APIStatusError, match="cores"):
        ask(client, "huge")
    assert time.monotonic() - began < 5, "what is known to fit nowhere is refused at once"
    status = up.ctl("status")
    assert (status["models"]["short"], status["unplaceable"]) == (1, ["huge"])
    up.llmgw("ctl", "model", "remove", "huge")


def test_a_model_that_asks_for_it_is_stopped_when_idle_and_started_again(up, client, counting_model):
    serve(up, counting_model, "naps", "--cores", "0.2", "--idle", "2")
    ask(client, "naps")
    (first,) = replicas(up, "naps")
    up.wait_for(lambda: replicas(up, "naps") == [], timeout=60, what="the idle replica is gone")
    assert ask(client, "naps").choices[0].message.content.startswith(" 1 2 3")
    (second,) = replicas(up, "naps")
    assert second["id"] != first["id"]
