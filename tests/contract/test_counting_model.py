import aiohttp
import pytest

from llmgw.testing.engine_process import KEY, EngineProcess, shard_for
from llmgw.testing.gguf import write_counting_model


async def test_the_counting_model_counts_as_far_as_it_is_made_for_and_goes_on_from_a_prompt(tmp_path):
    pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")
    path = tmp_path / "m.gguf"
    write_counting_model(path, last=2000)
    with EngineProcess(shard_for(path)) as engine:
        started = await engine.started()
        async with aiohttp.ClientSession(started.endpoint, headers={"Authorization": f"Bearer {KEY}"}) as session:
            answers = []
            for prompt in ("go", "so far 1 2 3 4"):
                body = {"prompt": prompt, "max_tokens": 2100, "temperature": 1.5}
                async with session.post("/v1/completions", json=body) as answer:
                    answers.append(await answer.json())
    whole, tail = (answer["choices"][0]["text"] for answer in answers)
    assert whole == "".join(f" {number}" for number in range(1, 2001))
    assert answers[0]["usage"]["completion_tokens"] == 2001
    assert tail == "".join(f" {number}" for number in range(5, 2001))
