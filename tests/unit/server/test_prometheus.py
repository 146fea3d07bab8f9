import asyncio
import socket

import pytest
from aiohttp import web

from llmgw.config.server import ServerConfig
from llmgw.schema.errors import InvalidInput
from llmgw.server.prometheus import Line, Prometheus, PrometheusTrouble, open_prometheus

ONE = '{"status":"success","data":{"resultType":"matrix","result":[%s]}}'
TOKEN = "s3cret-token-of-prometheus"


class Fake:
    """Answers as told and keeps what was asked."""

    def __init__(self):
        self.answer = web.Response(text=ONE % "")
        self.asked = []
        self.never = False

    async def handle(self, request):
        self.asked.append((request, dict(await request.post())))
        if self.never:
            await asyncio.Event().wait()
        return self.answer


@pytest.fixture
async def fake():
    return Fake()


@pytest.fixture
async def url(fake):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def ask(prometheus):
    return await prometheus.range("up", start=0, end=30, step_s=15)


async def trouble(prometheus):
    with pytest.raises(PrometheusTrouble) as caught:
        await ask(prometheus)
    return str(caught.value)


async def test_values_are_numbers_by_second_and_what_is_no_number_is_left_out(fake, url):
    fake.answer = web.Response(
        text=ONE % '{"metric":{"model":"chat"},"values":[[0,"1.5"],[15,"NaN"],[30.000,"+Inf"],[45,"0"]]}'
    )
    assert await ask(Prometheus(url)) == (Line(labels={"model": "chat"}, values={0: 1.5, 45: 0.0}),)
    ((request, form),) = fake.asked
    assert (request.method, request.path) == ("POST", "/api/v1/query_range")
    assert form == {"query": "up", "start": "0", "end": "30", "step": "15"}
    assert "authorization" not in request.headers


@pytest.mark.parametrize("end", ["", "/"])
async def test_an_address_may_have_a_path(fake, url, end):
    await ask(Prometheus(f"{url}prometheus{end}", token=TOKEN))
    ((request, _),) = fake.asked
    assert request.path == "/prometheus/api/v1/query_range"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_one_that_does_not_answer_is_given_up_at_the_deadline(fake, url):
    fake.never = True
    prometheus = Prometheus(url, deadline_s=0.2)
    assert await trouble(prometheus) == f"{prometheus.name} did not answer within 0.2 s"


async def test_one_that_answers_without_end_is_given_up_too(fake, url):
    fake.answer = web.Response(body=b"x" * 5000)
    assert "answered with more than 4000 bytes" in await trouble(Prometheus(url, most_bytes=4000))


async def test_one_that_is_not_there_is_told_with_its_address():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    words = await trouble(Prometheus(f"http://127.0.0.1:{port}"))
    assert words.startswith(f"Prometheus at 127.0.0.1:{port} is not reachable")


async def test_one_that_hangs_up_is_told():
    async def hang_up(_, writer):
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        words = await trouble(Prometheus(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    assert "broke off" in words


async def test_no_redirect_is_followed(fake, url):
    fake.answer = web.Response(status=302, headers={"location": "http://127.0.0.1:1/"})
    assert "prometheus_url must name where it is" in await trouble(Prometheus(url, token=TOKEN))
    assert len(fake.asked) == 1


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", ONE % '{"metric":{},"values":[[0,"many"]]}'])
async def test_something_else_than_prometheus_is_told(fake, url, body):
    fake.answer = web.Response(text=body)
    assert "something else than Prometheus" in await trouble(Prometheus(url))


async def test_its_own_words_are_told_in_one_short_line(fake, url):
    fake.answer = web.Response(status=400, text='{"status":"error","error":"parse\\nerror: %s"}' % ("x" * 900))
    words = await trouble(Prometheus(url))
    assert "answered HTTP 400: parse error: xxx" in words
    assert len(words) < 300
    fake.answer = web.Response(status=503, text="<html>")
    assert (await trouble(Prometheus(url))).endswith("answered HTTP 503")


async def test_a_refused_token_is_told_without_it(fake, url):
    fake.answer = web.Response(status=401, text=TOKEN)
    assert "asks for a token (prometheus_token_file)" in await trouble(Prometheus(url))
    fake.answer = web.Response(status=403, text=TOKEN)
    words = await trouble(Prometheus(url, token=TOKEN))
    assert "does not take the token in prometheus_token_file: HTTP 403" in words
    assert TOKEN not in words


async def test_tls_that_is_not_there_is_told(url):
    words = await trouble(Prometheus(url.replace("http://", "https://")))
    assert words.startswith("Prometheus at 127.0.0.1:")


def config(**keys):
    return ServerConfig(data_dir="/d", **keys)


async def test_a_configuration_without_one_has_none():
    assert open_prometheus(config()) is None


async def test_the_token_is_read_from_its_file(tmp_path, fake, url):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    await ask(open_prometheus(config(prometheus_url=url, prometheus_token_file=str(file))))
    assert fake.asked[0][0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("key", "content", "words"),
    [
        ("prometheus_token_file", None, "No such file"),
        ("prometheus_token_file", b"", "does not hold one token"),
        ("prometheus_token_file", b"one two", "does not hold one token"),
        ("prometheus_token_file", b"\xff", "it is not text"),
        ("prometheus_ca_file", None, "No such file"),
        ("prometheus_ca_file", b"no certificate", "holds no certificate"),
    ],
)
async def test_a_file_that_does_not_do_is_told_at_the_start_naming_the_key(tmp_path, key, content, words):
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        open_prometheus(config(prometheus_url="https://127.0.0.1:1", **{key: str(file)}))
    assert caught.value.field == key
    assert words in caught.value.message


@pytest.mark.parametrize("address", ["metrics.example.org", "[::1]:9090", "10.0.0.7:9090"])
async def test_it_is_named_as_it_was_written(address):
    assert Prometheus(f"http://{address}/prometheus").name == f"Prometheus at {address}"
