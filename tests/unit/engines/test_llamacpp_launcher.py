import msgspec
import pytest

from llmgw.engines.llamacpp_launcher import apply_flags, fill
from llmgw.engines.llamacpp_settings import Settings
from llmgw.schema.model import Role

xllamacpp = pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")

MIB = 2**20


def settings(**changes) -> Settings:
    plain = Settings(
        shard="r.0",
        model="org/m",
        path="/m.gguf",
        role=Role.CHAT,
        key="le_secret",
        context=1024,
        slots=4,
        threads=3,
        verbosity=2,
        grace_s=1,
        flags={},
    )
    return msgspec.structs.replace(plain, **changes)


def filled(*, size: int = MIB, **changes):
    params = xllamacpp.CommonParams()
    wanted = settings(**changes)
    fill(params, wanted, size)
    apply_flags(params, wanted, xllamacpp)
    return params


def test_context_is_counted_per_slot_and_never_shrunk_behind_our_back():
    params = filled()
    assert (params.n_ctx, params.n_parallel) == (4096, 4)
    assert params.fit_params is False


def test_the_engine_is_ours_alone_on_loopback():
    params = filled()
    assert params.api_keys == ["le_secret"]
    assert params.hostnames == ["127.0.0.1"]
    assert params.port == 0
    assert params.ui is False
    assert params.model_alias == {"org/m"}
    assert params.endpoint_metrics is True


def test_both_kinds_of_threads_are_set():
    params = filled()
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (3, 3)


@pytest.mark.parametrize(("slots", "threads"), [(1, 64), (24, 64), (25, 66), (256, 528)])
def test_http_threads_outnumber_what_may_be_asked_at_once(slots, threads):
    assert filled(slots=slots).n_threads_http == threads


@pytest.mark.parametrize(("size", "checked"), [(MIB, True), (256 * MIB - 1, True), (256 * MIB, False)])
def test_small_files_are_checked_for_damage(size, checked):
    assert filled(size=size).check_tensors is checked


def test_an_operator_may_decide_about_the_check():
    assert filled(size=MIB, flags={"check_tensors": "false"}).check_tensors is False


def test_generating_models_read_prompts_in_parts_that_can_be_cancelled():
    params = filled()
    assert (params.n_batch, params.n_ubatch) == (256, 256)
    assert params.embedding is False


@pytest.mark.parametrize(
    ("role", "flags", "pooling"), [(Role.EMBED, {"pooling": "mean"}, "MEAN"), (Role.RERANK, {}, "RANK")]
)
def test_pooled_texts_fit_one_batch(role, flags, pooling):
    params = filled(role=role, context=2048, flags=flags)
    assert params.embedding is True
    assert (params.n_batch, params.n_ubatch) == (2048, 2048)
    assert params.pooling_type == xllamacpp.llama_pooling_type[f"LLAMA_POOLING_TYPE_{pooling}"]


def test_an_operator_chooses_the_pooling_an_embedding_model_was_trained_for():
    params = filled(role=Role.EMBED, flags={"pooling": "cls"})
    assert params.pooling_type == xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_CLS


def test_streams_ping_before_a_gateway_thinks_them_dead():
    assert filled().sse_ping_interval == 5


def test_a_chat_template_replaces_the_models_own():
    assert filled().chat_template == ""
    assert filled(chat_template="{{ messages }}").chat_template == "{{ messages }}"


def test_the_key_is_not_in_the_text_of_settings():
    assert "le_secret" not in repr(settings())
