import pytest

from llmgw.core.guard.judges.recognise import Clues, recognise, recognise_weights
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.weights import Weights, WeightsFormat

SMALL, LARGE, QWEN = JudgeFamily.LLAMA_GUARD_3_1B, JudgeFamily.LLAMA_GUARD_3_8B, JudgeFamily.QWEN3_GUARD_GEN
FRAME = "<BEGIN UNSAFE CONTENT CATEGORIES>S1: Violent Crimes. S5: Defamation. {}<END UNSAFE CONTENT CATEGORIES>"


@pytest.mark.parametrize(
    ("file", "family"),
    [
        ("/models/Llama-Guard-3-1B.Q4_K_M.gguf", SMALL),
        ("/models/llama_guard_3_8b-q8_0.gguf", LARGE),
        ("hf:MaziyarPanahi/Llama-Guard-3-1B-GGUF@main:x.gguf", SMALL),
        ("/models/LlamaGuard3-1b.gguf", SMALL),
        ("/models/Qwen3Guard-Gen-0.6B.Q8_0.gguf", QWEN),
        ("/models/qwen3guard-gen-8b.gguf", QWEN),
        ("/models/SmolLM2-135M-Instruct.gguf", None),
        ("/models/Llama-3.1-8B-Instruct.gguf", None),
    ],
)
def test_names_tell(file, family):
    assert recognise(Clues(file=file)).family is family


@pytest.mark.parametrize(
    ("clues", "family"),
    [
        (Clues(file="/m/judge.gguf", chat_template=FRAME.format("S13: Elections.")), SMALL),
        (Clues(file="/m/judge.gguf", chat_template=FRAME.format("S14: Code Interpreter Abuse.")), LARGE),
        (Clues(file="/m/guard-8b.gguf", name="Llama Guard 3 8B", chat_template=FRAME.format("")), LARGE),
        (Clues(file="/m/x.gguf", chat_template=FRAME.format("**Safety: Safe**: fine")), QWEN),
        (Clues(file="/m/x.gguf", name="Llama Guard 3", layers=16), SMALL),
        (Clues(file="/m/x.gguf", name="Llama Guard 3", layers=32), LARGE),
        (Clues(file="/m/llama-guard.gguf"), LARGE),
    ],
)
def test_templates_and_layers_tell_where_names_do_not(clues, family):
    found = recognise(clues)
    assert found.family is family
    assert found.evidence


@pytest.mark.parametrize(
    ("clues", "other"),
    [
        (Clues(file="/m/Llama-Guard-4-12B.gguf"), "Llama Guard 4"),
        (Clues(file="/m/llama-guard-2-8b.gguf"), "Llama Guard 2"),
        (Clues(file="/m/Llama-Guard-3-11B-Vision.gguf"), "Llama Guard 3 Vision"),
        (Clues(file="/m/x.gguf", chat_template="[INST]" + FRAME.format("O1: Violence")), "Llama Guard 1 or 2"),
        (Clues(file="/m/Qwen3Guard-Stream-4B"), "Qwen3Guard-Stream"),
        (Clues(file="/m/shieldgemma-2b.gguf"), "ShieldGemma"),
        (Clues(file="/m/x.gguf", chat_template="{% if guardian_config %}"), "Granite Guardian"),
        (Clues(file="/m/Llama-Prompt-Guard-2-86M"), "Prompt Guard"),
    ],
)
def test_judges_that_cannot_be_asked_are_named(clues, other):
    found = recognise(clues)
    assert (found.family, found.other) == (None, other)


def test_a_models_source_is_known_by_what_a_node_found_there_else_by_its_name():
    weights = Weights(path="/m/x.gguf", format=WeightsFormat.GGUF, size_bytes=1)
    assert recognise_weights("hf:meta/Llama-Guard-3-8B@main", None).family is LARGE
    assert recognise_weights("/m/x.gguf", weights).family is None
    found = Weights(path="/m/x.gguf", format=WeightsFormat.GGUF, size_bytes=1, judge=SMALL)
    assert recognise_weights("/m/x.gguf", found).family is SMALL
    named = Weights(path="/m/x.gguf", format=WeightsFormat.GGUF, size_bytes=1, name="Llama Guard 3", layers=16)
    assert recognise_weights("/m/x.gguf", named).family is SMALL
