"""`llmgw up` without arguments serves the demo model, and unmodified clients of the openai package use it."""

import http.client
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import anthropic
import openai
import pytest

from llmgw.testing.random_model import write_random_model

DEMO = "smollm2-135m-instruct"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def up(new_up: Callable) -> Iterator:
    one = new_up()
    one.printed = one.up().stdout
    return one


@pytest.fixture
def client(up) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0) as made:
        yield made


def test_the_printed_curl_answers_paris(up):
    command = re.search(r"  curl .*?'\n", up.printed, re.DOTALL).group(0)
    answer = json.loads(subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=120).stdout)
    assert "Paris" in answer["choices"][0]["message"]["content"]


def test_everything_needed_is_printed(up):
    for value in (up.base_url, up.key, up.credentials["console_url"], DEMO):
        assert value in up.printed


def test_a_plain_chat_answers_with_usage(client):
    answer = client.chat.completions.create(model=DEMO, messages=QUESTION, temperature=0, max_tokens=20)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.object == "chat.completion"
    assert answer.model == DEMO


def test_a_streamed_chat_gives_the_same_text_and_usage_only_when_asked(client):
    plain = client.chat.completions.create(model=DEMO, messages=QUESTION, temperature=0, max_tokens=20)
    chunks = list(
        client.chat.completions.create(
            model=DEMO,
            messages=QUESTION,
            temperature=0,
            max_tokens=20,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    unasked = list(
        client.chat.completions.create(model=DEMO, messages=QUESTION, temperature=0, max_tokens=5, stream=True)
    )
    assert all(chunk.usage is None for chunk in unasked)
    assert all(chunk.choices for chunk in unasked)


def test_a_model_answers_under_an_alias_as_soon_as_it_is_set(up, client):
    up.ctl("alias", "set", "team/chat", DEMO)
    up.wait_for(lambda: "team/chat" in [model.id for model in client.models.list()], timeout=30, what="the alias")
    answer = client.chat.completions.create(model="team/chat", messages=QUESTION, temperature=0, max_tokens=20)
    assert "Paris" in answer.choices[0].message.content
    assert answer.model == DEMO
    assert DEMO in up.llmgw("ctl", "alias", "list").stdout
    up.ctl("alias", "remove", "team/chat")


def test_anthropics_client_gets_the_same_answer_plain_and_streamed_and_the_tokens_it_counted_before(up, client):
    chat = client.chat.completions.create(model=DEMO, messages=QUESTION, temperature=0, max_tokens=20)
    ask = {"model": DEMO, "messages": QUESTION, "max_tokens": 20, "extra_body": {"temperature": 0}}
    with anthropic.Anthropic(base_url=up.base_url.removesuffix("/v1"), api_key=up.key, max_retries=0) as messages:
        plain = messages.messages.create(**ask)
        with messages.messages.stream(**ask) as stream:
            begun = next(iter(stream)).message.usage
            streamed = stream.get_final_message()
        counted = messages.messages.count_tokens(model=DEMO, messages=QUESTION)
    assert plain.content[0].text == streamed.content[0].text == chat.choices[0].message.content
    for usage in (plain.usage, streamed.usage, begun):
        assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens == chat.usage.prompt_tokens
    assert plain.usage.output_tokens == streamed.usage.output_tokens == chat.usage.completion_tokens


async def test_the_async_client_streams_too(up):
    async with openai.AsyncOpenAI(base_url=up.base_url, api_key=up.key, max_retries=0) as client:
        answer = await client.chat.completions.create(model=DEMO, messages=QUESTION, temperature=0, max_tokens=8)
        stream = await client.chat.completions.create(
            model=DEMO, messages=QUESTION, temperature=0, max_tokens=8, stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert text == answer.choices[0].message.content


def test_completions_plain_and_streamed(client):
    plain = client.completions.create(model=DEMO, prompt="Paris is the capital of", temperature=0, max_tokens=6)
    assert plain.object == "text_completion"
    assert plain.usage.completion_tokens == 6
    streamed = client.completions.create(
        model=DEMO, prompt="Paris is the capital of", temperature=0, max_tokens=6, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed if chunk.choices) == plain.choices[0].text


def test_models_are_listed_and_shown(client):
    assert DEMO in [model.id for model in client.models.list()]
    assert client.models.retrieve(DEMO).object == "model"


def test_a_second_tiny_model_gives_embeddings(up, client, tmp_path_factory):
    weights = Path(tmp_path_factory.mktemp("embed")) / "tiny.gguf"
    write_random_model(weights, width=32, layers=1)
    up.ctl("model", "serve", "tests/tiny-embed", "--source", str(weights), "--role", "embed")
    up.wait_ready("tests/tiny-embed")
    answer = client.embeddings.create(model="tests/tiny-embed", input=["one", "two"])
    assert [item.index for item in answer.data] == [0, 1]
    assert len(answer.data[0].embedding) == 32
    assert sum(value * value for value in answer.data[0].embedding) == pytest.approx(1, abs=1e-3)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tests/tiny-embed", messages=QUESTION)
    assert client.models.retrieve("tests/tiny-embed").id == "tests/tiny-embed"


def test_a_wrong_key_is_an_authentication_error(up):
    with (
        openai.OpenAI(base_url=up.base_url, api_key="lk_wrongwrongwrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.chat.completions.create(model=DEMO, messages=QUESTION)


def test_an_unknown_model_is_not_found_with_its_code(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nobody/has-this", messages=QUESTION)
    assert caught.value.code == "model_not_found"


def test_malformed_json_is_refused_naming_the_place(up):
    connection = http.client.HTTPConnection("127.0.0.1", up.gateway_port, timeout=30)
    headers = {"Authorization": f"Bearer {up.key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body=b'{"model": "x",\n "messages": [}', headers=headers)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    assert response.status == 400
    assert re.search(r"byte \d+|line \d+", body["error"]["message"])
    assert body["error"]["type"] == "invalid_request_error"
