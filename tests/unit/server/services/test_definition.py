from datetime import UTC, datetime

import pytest

from llmgw.schema.admin.model import ChangeModel, ServeModel
from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Model, Profile, Role
from llmgw.server.services import definition

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _defined(name: str = "m", source: str = "/m.gguf", **fields) -> Model:
    return definition.defined(ServeModel(name=name, source=source, **fields), created_at=NOW)


def _refused(*, change: ChangeModel | None = None, **fields) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        definition.changed(_defined(**fields), change or ChangeModel())
    return caught.value


@pytest.mark.parametrize("name", ["m", "org/model", "Org/Model-7B:Q4_K_M", "a.b_c", "x" * 200, "-", "v1/v2/v3"])
def test_a_name_holds_letters_digits_and_a_few_signs(name):
    assert _defined(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "x" * 201, "a b", "a/", "/a", "a//b", "..", "a/../b", "./a", "ä", "a\n", "a?b", "a#b", "a%2Fb", "a'b"]
)
def test_a_name_that_urls_would_change_is_refused(name):
    assert _refused(name=name).field == "name"


@pytest.mark.parametrize(
    "source",
    [
        "/models/chat.gguf",
        "/models/with space.gguf",
        "hf:org/repo@main",
        "hf:org/repo@0a1b2c:sub/file.gguf",
        "hf:org/repo.x@refs/pr/1:f.gguf",
    ],
)
def test_a_source_is_an_absolute_path_or_a_hub_reference(source):
    assert _defined(source=source).source == source


@pytest.mark.parametrize(
    "source",
    [
        "",
        "models/chat.gguf",
        "/models/../etc/passwd",
        "/models//chat.gguf",
        "/models/",
        "hf:org/repo",
        "hf:repo@main",
        "hf:org/repo@main:../../x",
        "http://example.org/m.gguf",
        "/m\x00.gguf",
    ],
)
def test_any_other_source_is_refused(source):
    assert _refused(source=source).field == "source"


def test_a_path_that_nodes_would_write_otherwise_is_corrected_in_words():
    assert _refused(source="/models//chat.gguf").hint == "write '/models/chat.gguf'"


@pytest.mark.parametrize(("least", "most"), [(0, 1), (1, 1), (3, 3)])
def test_a_max_left_out_is_as_low_as_it_can_be(least, most):
    assert _defined(min=least).max == most


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"min": -1}, "min"), ({"min": 2, "max": 1}, "max"), ({"min": 0, "max": 0}, "max"), ({"min": 10_001}, "min")],
)
def test_min_and_max_must_make_sense(fields, field):
    assert _refused(**fields).field == field


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        (Profile(nodes=0), "profile.nodes"),
        (Profile(devices_per_node=-1), "profile.devices_per_node"),
        (Profile(context=0), "profile.context"),
        (Profile(slots=0), "profile.slots"),
        (Profile(cores=0.0), "profile.cores"),
        (Profile(memory_gb=float("nan")), "profile.memory_gb"),
        (Profile(flags={"no_such_flag": "1"}), "profile.flags.no_such_flag"),
        (Profile(engine=EngineKind.VLLM), "profile.engine"),
    ],
)
def test_a_profile_is_checked_down_to_the_engines_flags(profile, field):
    assert _refused(profile=profile).field == field


def test_what_changes_how_replicas_run_is_a_new_revision():
    model = _defined()
    assert definition.changed(model, ChangeModel(source="/other.gguf")).revision == 2
    assert definition.changed(model, ChangeModel(role=Role.EMBED)).revision == 2
    assert definition.changed(model, ChangeModel(profile={"context": 512})).revision == 2


def test_scaling_is_no_new_revision_because_it_must_restart_nothing():
    model = _defined()
    assert definition.changed(model, ChangeModel(min=2, max=3)).revision == 1
    assert definition.scaled(model, 5).revision == 1


def test_a_change_to_the_same_is_no_change():
    model = _defined()
    assert definition.changed(model, ChangeModel(source=model.source, min=1)) == model


def test_a_changed_profile_keeps_what_was_not_named_and_gives_back_what_is_null():
    model = _defined(profile=Profile(context=512, slots=4))
    assert definition.changed(model, ChangeModel(profile={"context": None, "class": "cpu"})).profile == Profile(
        slots=4, device_class="cpu"
    )


def test_an_unknown_field_of_a_changed_profile_is_refused_where_it_stands():
    assert _refused(change=ChangeModel(profile={"contxt": 1})).field == "profile.contxt"


@pytest.mark.parametrize(("replicas", "least", "most"), [(0, 0, 2), (1, 1, 2), (5, 5, 5)])
def test_scaling_sets_min_and_lifts_max_only_as_far_as_needed(replicas, least, most):
    scaled = definition.scaled(_defined(min=1, max=2), replicas)
    assert (scaled.min, scaled.max) == (least, most)


@pytest.mark.parametrize("replicas", [-1, 10_001])
def test_scaling_out_of_range_is_refused(replicas):
    with pytest.raises(InvalidInput) as caught:
        definition.scaled(_defined(), replicas)
    assert caught.value.field == "replicas"


@pytest.mark.parametrize("lost_after", [60.0, 3600.0, "never", None])
def test_a_model_may_wait_for_silent_nodes_for_a_minute_or_longer_or_for_ever(lost_after):
    assert definition.changed(_defined(lost_after=lost_after), ChangeModel()).lost_after == lost_after


@pytest.mark.parametrize("lost_after", [0.0, 59.9, -1.0, float("inf"), float("nan")])
def test_a_silence_shorter_than_a_minute_is_refused_with_what_is_allowed(lost_after):
    error = _refused(lost_after=lost_after)
    assert (error.field, error.allowed) == ("lost_after", ("60 or more", "never"))


def test_a_models_wait_goes_back_to_the_servers():
    assert definition.changed(_defined(lost_after="never"), ChangeModel(lost_after="default")).lost_after is None
