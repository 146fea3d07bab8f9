import pytest

from llmgw.engines.llamacpp_profile import check_profile
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Profile, Role

GOOD = (
    Profile(),
    Profile(device_class="cpu", variant="cpu", context=1, slots=256, cores=0.5, memory_gb=0.5),
    Profile(chat_template="{{ messages }}", env={"GOMP_SPINCOUNT": "100"}),
    Profile(flags={"n_batch": "128", "n_ubatch": "128"}),
    Profile(flags={"cache_type_v": "q8_0", "flash_attn": "true"}),
)

BAD = (
    (Profile(nodes=2), "nodes", ("1",)),
    (Profile(devices_per_node=1), "devices_per_node", ("0",)),
    (Profile(device_class="h100-80gb"), "class", ("cpu",)),
    (Profile(variant="cuda"), "variant", ("cpu",)),
    (Profile(fabric="ib1"), "fabric", ()),
    (Profile(context=0), "context", ("1 to 4194304",)),
    (Profile(context=-5), "context", ("1 to 4194304",)),
    (Profile(slots=0), "slots", ("1 to 256",)),
    (Profile(slots=257), "slots", ("1 to 256",)),
    (Profile(cores=0), "cores", ("0.1 to 512",)),
    (Profile(memory_gb=0), "memory_gb", ("0.01 to 65536",)),
    (Profile(chat_template="chatml"), "chat_template", None),
    (Profile(chat_template="{" + "x" * 70_000 + "}"), "chat_template", None),
    (Profile(flags={"n_batch": "64", "n_ubatch": "128"}), "flags.n_ubatch", None),
    (Profile(flags={"n_ubatch": "512"}), "flags.n_ubatch", None),
    (Profile(flags={"cache_type_v": "q8_0", "flash_attn": "false"}), "flags.cache_type_v", None),
)


@pytest.mark.parametrize("profile", GOOD)
def test_a_profile_within_the_limits_is_taken(profile):
    check_profile(profile, Role.CHAT)


@pytest.mark.parametrize(("profile", "field", "allowed"), BAD)
def test_a_profile_llamacpp_cannot_run_is_refused_by_its_field(profile, field, allowed):
    with pytest.raises(InvalidInput) as refused:
        check_profile(profile, Role.CHAT)
    assert refused.value.field == field
    assert refused.value.hint
    if allowed is not None:
        assert refused.value.allowed == allowed


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "GGML_BACKEND_PATH", "PATH", "gomp_spincount"])
def test_variables_that_could_run_code_are_refused(name):
    with pytest.raises(InvalidInput, match=name) as refused:
        check_profile(Profile(env={name: "x"}), Role.CHAT)
    assert "GOMP_SPINCOUNT" in refused.value.allowed


def test_a_flag_off_the_list_is_refused_with_the_nearest():
    with pytest.raises(InvalidInput) as refused:
        check_profile(Profile(flags={"cache_ram_mb": "1"}), Role.CHAT)
    assert refused.value.hint.startswith("did you mean cache_ram_mib?")
