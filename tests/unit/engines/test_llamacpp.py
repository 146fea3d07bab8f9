import importlib.metadata
import sys

import msgspec
import pytest

from llmgw.engines.llamacpp import LlamaCpp
from llmgw.engines.llamacpp_settings import Settings
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Profile, Role
from llmgw.schema.node import Host
from llmgw.schema.plan import Claim
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.testing.engine_process import shard_for

ADAPTER = LlamaCpp()
MIB = 2**20
HOST = Host(os="Debian 12", kernel="6.1", machine="x86_64", cpu_model="Xeon", cpu_flags=("avx2",))


def weights(**changes) -> Weights:
    plain = Weights(
        path="/m.gguf",
        format=WeightsFormat.GGUF,
        size_bytes=100 * MIB,
        context_length=8192,
        kv_bytes_per_token=23_040,
    )
    return msgspec.structs.replace(plain, **changes)


def test_what_is_left_open_is_decided_from_the_weights_and_shown():
    resolved = ADAPTER.resolve(Profile(), Role.CHAT, weights(), 8)
    assert (resolved.context, resolved.slots, resolved.cores, resolved.variant) == (4096, 4, 1.0, "cpu")
    assert resolved.flags == {"cache_ram_mib": "256"}


def test_embedding_models_get_two_slots_half_the_context_no_prompt_cache_and_a_pooling():
    resolved = ADAPTER.resolve(Profile(), Role.EMBED, weights(), None)
    assert (resolved.slots, resolved.context) == (2, 2048)
    assert resolved.flags == {"cache_ram_mib": "0", "pooling": "mean"}


def test_embedding_by_a_model_with_an_output_head_claims_the_head_for_a_whole_text():
    resolved = ADAPTER.resolve(Profile(context=1024), Role.EMBED, weights(), None)
    without = ADAPTER.claim(resolved, weights()).memory_bytes
    assert ADAPTER.claim(resolved, weights(vocabulary=49_152)).memory_bytes - without == 384 * MIB
    chat = ADAPTER.resolve(Profile(context=1024), Role.CHAT, weights(), None)
    assert ADAPTER.claim(chat, weights(vocabulary=49_152)) == ADAPTER.claim(chat, weights())


@pytest.mark.parametrize(("trained", "context"), [(None, 4096), (2048, 2048), (300, 512), (131_072, 4096)])
def test_context_is_the_trained_one_up_to_a_modest_limit_rounded_up_to_256(trained, context):
    assert ADAPTER.resolve(Profile(), Role.CHAT, weights(context_length=trained), None).context == context


def test_what_is_stated_stays():
    stated = Profile(context=1000, slots=1, cores=2.5, flags={"cache_ram_mib": "8"})
    resolved = ADAPTER.resolve(stated, Role.CHAT, weights(), 1)
    assert (resolved.context, resolved.slots, resolved.cores) == (1024, 1, 2.5)
    assert resolved.flags == {"cache_ram_mib": "8"}


def test_resolving_twice_changes_nothing():
    once = ADAPTER.resolve(Profile(context=1000), Role.GUARD, weights(), 1)
    assert ADAPTER.resolve(once, Role.GUARD, None, None) == once


def test_a_node_with_less_than_a_core_can_take_a_model_that_asks_for_none():
    assert ADAPTER.resolve(Profile(), Role.CHAT, weights(), 0.5).cores == 0.5


def test_the_claim_adds_weights_cache_for_all_slots_prompts_and_overhead():
    resolved = ADAPTER.resolve(Profile(context=1024, slots=2), Role.CHAT, weights(), None)
    # 100 + 23,040 * 2,048 / MiB = 45 + 256 + 64
    assert ADAPTER.claim(resolved, weights()) == Claim(cores=1.0, memory_bytes=465 * MIB)


def test_a_quantised_cache_is_claimed_by_its_size():
    flags = {"cache_type_k": "q8_0", "cache_type_v": "q4_0", "cache_ram_mib": "0"}
    resolved = ADAPTER.resolve(Profile(context=1024, slots=2, flags=flags), Role.CHAT, weights(), None)
    # 100 + 45 * (8.5 + 4.5) / 32 + 64, rounded up
    assert ADAPTER.claim(resolved, weights()).memory_bytes == 183 * MIB


def test_a_stated_size_is_claimed_as_it_is():
    resolved = ADAPTER.resolve(Profile(memory_gb=1.5), Role.CHAT, weights(), None)
    assert ADAPTER.claim(resolved, weights()).memory_bytes == 1536 * MIB


def test_unknown_weights_claim_no_known_memory():
    resolved = ADAPTER.resolve(Profile(), Role.CHAT, None, None)
    assert ADAPTER.claim(resolved, None).memory_bytes is None


def test_a_cache_of_unknown_size_is_not_taken_for_none():
    resolved = ADAPTER.resolve(Profile(), Role.EMBED, None, None)
    assert ADAPTER.claim(resolved, weights(kv_bytes_per_token=None)).memory_bytes == 264 * MIB


def test_a_claim_of_a_profile_that_was_never_checked_does_not_fail():
    broken = Profile(context=256, slots=1, flags={"cache_ram_mib": "many", "cache_type_k": "odd"})
    assert ADAPTER.claim(broken, weights()).memory_bytes == 170 * MIB


def test_a_launch_has_the_shard_in_argv_and_the_key_on_standard_input_only():
    shard = shard_for("/m.gguf", model="org/m", profile=Profile(cores=2.9), grace_s=7)
    launch = ADAPTER.launch(shard, log_verbosity=0)
    assert launch.argv == (sys.executable, "-P", "-m", "llmgw.engines.llamacpp_launcher", shard.id)
    assert launch.env == {"GOMP_SPINCOUNT": "0"}
    assert msgspec.json.decode(launch.stdin, type=Settings) == Settings(
        shard=shard.id,
        model="org/m",
        path="/m.gguf",
        role=Role.CHAT,
        key=shard.key,
        context=4096,
        slots=4,
        threads=2,
        verbosity=2,
        grace_s=7,
        flags={"cache_ram_mib": "256"},
    )


@pytest.mark.parametrize(("cores", "threads"), [(0.5, 1), (1.0, 1), (4.0, 4)])
def test_threads_follow_cores_and_are_never_none(cores, threads):
    launch = ADAPTER.launch(shard_for("/m", profile=Profile(cores=cores)), log_verbosity=3)
    assert msgspec.json.decode(launch.stdin)["threads"] == threads


def test_an_operator_may_tune_the_threads_spinning():
    launch = ADAPTER.launch(shard_for("/m", profile=Profile(env={"GOMP_SPINCOUNT": "9"})), log_verbosity=2)
    assert launch.env == {"GOMP_SPINCOUNT": "9"}


def test_a_launch_of_a_profile_off_the_limits_is_refused():
    with pytest.raises(InvalidInput, match="LD_PRELOAD"):
        ADAPTER.launch(shard_for("/m", profile=Profile(env={"LD_PRELOAD": "x"})), log_verbosity=2)


def test_a_machine_with_avx2_can_run_the_wheel():
    pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")
    version = importlib.metadata.version("xllamacpp")
    assert ADAPTER.probe(HOST) == EngineInstall(
        kind=EngineKind.LLAMACPP, version=version, variant="cpu", state=EngineState.READY
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"cpu_flags": ()}, "needs a CPU with AVX2; Xeon has none"), ({"machine": "aarch64"}, "this machine is aarch64")],
)
def test_a_machine_the_build_does_not_fit_is_unsupported_with_the_reason(changes, told):
    pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")
    found = ADAPTER.probe(msgspec.structs.replace(HOST, **changes))
    assert found.state is EngineState.UNSUPPORTED
    assert told in found.reason


def test_without_the_wheel_the_engine_is_absent(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert ADAPTER.probe(HOST) is None


def test_the_last_complete_line_of_the_launcher_counts():
    first = '\nLLMGW-READY {"endpoint":"http://127.0.0.1:1","pid":1,"version":"1"}\n'
    assert ADAPTER.ready_line("") is None
    assert ADAPTER.ready_line('\nLLMGW-READY {"endpoi') is None
    assert ADAPTER.ready_line("0.1 E x LLMGW-READY {}") is None
    assert ADAPTER.ready_line(f"noise{first}noise").endpoint == "http://127.0.0.1:1"
    assert ADAPTER.ready_line(first + first.replace(":1", ":2")).endpoint == "http://127.0.0.1:2"


def test_progress_is_told_in_the_launchers_words():
    assert ADAPTER.starting("nothing yet") is None
    assert ADAPTER.starting('\nLLMGW-PROGRESS {"doing":"loading"}\n') == "loading"


@pytest.mark.parametrize("role", list(Role))
def test_the_door_opens_inference_paths_only(role):
    paths = ADAPTER.paths(role)
    assert paths
    assert all(path.startswith("/v1/") for path in paths)
