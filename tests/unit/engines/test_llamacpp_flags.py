import pytest

from llmgw.engines.flags import FlagKind, parse
from llmgw.engines.llamacpp_flags import BITS_PER_CACHE_ELEMENT, FLAGS
from llmgw.engines.llamacpp_launcher import apply_flags
from llmgw.engines.llamacpp_settings import Settings
from llmgw.schema.model import Role

xllamacpp = pytest.importorskip("xllamacpp", reason="the extra `cpu` is not installed")


def settings(role: Role, flags: dict[str, str]) -> Settings:
    return Settings(
        shard="r.0",
        model="m",
        path="/m",
        role=role,
        key="k",
        context=512,
        slots=1,
        threads=1,
        verbosity=2,
        grace_s=1,
        flags=flags,
    )


def text_of(flag) -> str:
    """Some allowed value of the flag."""
    match flag.kind:
        case FlagKind.BOOL:
            return "true"
        case FlagKind.CHOICE:
            return next(iter(flag.choices))
        case _:
            return str(int(min(flag.high, flag.low + 64)))


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_each_flag_reaches_its_parameter_in_the_installed_wheel(name):
    flag = FLAGS[name]
    role = next(iter(flag.roles))
    params = xllamacpp.CommonParams()
    params.n_batch = params.n_ubatch = 8192
    text = text_of(flag)
    apply_flags(params, settings(role, {name: text}), xllamacpp)
    found = params
    for part in flag.target.split("."):
        found = getattr(found, part)
    wanted = parse({name: text}, FLAGS, role)[name]
    assert found == (wanted if flag.enum is None else getattr(getattr(xllamacpp, flag.enum), wanted))


@pytest.mark.parametrize("name", sorted(name for name, flag in FLAGS.items() if flag.enum))
def test_each_choice_is_a_member_in_the_installed_wheel(name):
    flag = FLAGS[name]
    members = getattr(xllamacpp, flag.enum).__members__
    assert set(flag.choices.values()) <= set(members)


def test_the_size_of_each_cache_type_is_known():
    assert set(BITS_PER_CACHE_ELEMENT) == set(FLAGS["cache_type_k"].choices) == set(FLAGS["cache_type_v"].choices)


def test_no_flag_loads_files_or_changes_what_llmgw_decides():
    decided = {"model.path", "port", "hostnames", "api_keys", "n_ctx", "n_parallel", "endpoint_metrics", "verbosity"}
    files = {"slot_save_path", "public_path", "lora_adapters", "mmproj.path", "models_dir", "logits_file"}
    assert not {flag.target for flag in FLAGS.values()} & (decided | files)


def test_a_part_is_never_larger_than_the_batch():
    params = xllamacpp.CommonParams()
    params.n_batch = params.n_ubatch = 256
    apply_flags(params, settings(Role.CHAT, {"n_batch": "64"}), xllamacpp)
    assert (params.n_batch, params.n_ubatch) == (64, 64)
