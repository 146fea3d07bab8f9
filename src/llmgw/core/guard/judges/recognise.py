"""Which judge a model is, as far as its files tell: canaries confirm it, and an operator may overrule it."""

import re
from typing import NamedTuple

from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.weights import Weights


class Clues(NamedTuple):
    """What is known of a model's files."""

    file: str = ""
    """Path or repository."""
    name: str | None = None
    """What the file calls itself (`general.name`)."""
    layers: int | None = None
    chat_template: str | None = None


class Recognition(NamedTuple):
    """A judge, or none. `other` names a judge that llmgw cannot ask."""

    family: JudgeFamily | None = None
    evidence: tuple[str, ...] = ()
    """In words, the strongest first."""
    other: str | None = None


_NAME = re.compile(r"llama[-_ .]?guard(?:[-_ .]?(?P<version>\d))?(?P<rest>.*)", re.IGNORECASE)
_SIZE = re.compile(r"(?<![\d.])(?P<size>\d{1,2})[-_ ]?b(?![a-z])", re.IGNORECASE)
_QWEN = re.compile(r"qwen3[-_ .]?guard[-_ .]?(?P<kind>gen|stream)?", re.IGNORECASE)
_LAYERS_1B = 16
_FRAME = "UNSAFE CONTENT CATEGORIES"
_OTHERS: tuple[tuple[str, str], ...] = (
    (r"shield[-_ ]?gemma", "ShieldGemma"),
    (r"granite[-_ ]?guardian", "Granite Guardian"),
    (r"gpt[-_ ]?oss[-_ ]?safeguard", "gpt-oss-safeguard"),
    (r"prompt[-_ ]?guard", "Prompt Guard"),
    (r"wildguard", "WildGuard"),
    (r"nemo[-_ ]?guard|nemotron.*(?:safety|guard)", "Nemotron Safety Guard"),
)


def recognise(clues: Clues) -> Recognition:
    """Say which judge the files are of. The chat template tells most, then the name, then the size of the network."""
    text = f"{clues.name or ''}\n{clues.file.rsplit('/', 1)[-1]}\n{clues.file}"
    template = clues.chat_template or ""
    for found in (_by_template(template, clues, text), _by_name(clues, text)):
        if found is not None:
            return found
    for pattern, name in _OTHERS:
        if re.search(pattern, text, re.IGNORECASE):
            return Recognition(None, (f"its name says {name}",), name)
    return Recognition()


def recognise_weights(source: str, weights: Weights | None) -> Recognition:
    """Say which judge a model's source is of, by what a node found there, else by its name."""
    if weights is None:
        return recognise(Clues(file=source))
    if weights.judge is not None:
        return Recognition(weights.judge, ("the header of its file says so",))
    return recognise(Clues(file=source, name=weights.name, layers=weights.layers))


def _by_template(template: str, clues: Clues, text: str) -> Recognition | None:
    if _FRAME not in template:
        return _granite(template)
    if "Safety: Controversial" in template or "**Safety: Safe**" in template:
        return Recognition(JudgeFamily.QWEN3_GUARD_GEN, ("its chat template asks for a level of safety",))
    if "[INST]" in template or "O1:" in template:
        return Recognition(None, ("its chat template is that of Llama Guard 1 or 2",), "Llama Guard 1 or 2")
    if "S11: Sexual Content" in template or re.search(r"S5: Specialized Advice", template):
        return Recognition(None, ("its chat template has the 11 categories of Llama Guard 2",), "Llama Guard 2")
    told = "its chat template holds the categories of Llama Guard"
    named = _by_name(clues, text)
    if named is not None and named.other is not None:
        return named
    if "S14" in template:
        return Recognition(JudgeFamily.LLAMA_GUARD_3_8B, (f"{told}, S14 included",))
    if named is not None:
        return Recognition(named.family, (told, *named.evidence))
    return Recognition(JudgeFamily.LLAMA_GUARD_3_1B, (f"{told}, up to S13",))


def _granite(template: str) -> Recognition | None:
    if "guardian_config" in template or "<guardian>" in template:
        return Recognition(None, ("its chat template is that of Granite Guardian",), "Granite Guardian")
    return None


def _by_name(clues: Clues, text: str) -> Recognition | None:
    qwen = _QWEN.search(text)
    if qwen is not None:
        if (qwen["kind"] or "").lower() == "stream":
            return Recognition(None, ("its name says Qwen3Guard-Stream",), "Qwen3Guard-Stream")
        return Recognition(JudgeFamily.QWEN3_GUARD_GEN, ("its name says Qwen3Guard",))
    llama = _NAME.search(text)
    if llama is None:
        return None
    version = llama["version"]
    if version not in {None, "3"}:
        return Recognition(None, (f"its name says Llama Guard {version}",), f"Llama Guard {version}")
    if "vision" in text.lower():
        return Recognition(None, ("its name says Llama Guard 3 Vision",), "Llama Guard 3 Vision")
    size = _SIZE.search(llama["rest"])
    small = _small(size["size"] if size else None, clues)
    family = JudgeFamily.LLAMA_GUARD_3_1B if small else JudgeFamily.LLAMA_GUARD_3_8B
    how = "and size" if size else "and its layers the size" if clues.layers is not None else "but no size: taken as 8B"
    return Recognition(family, (f"its name says Llama Guard {how}",))


def _small(size: str | None, clues: Clues) -> bool:
    if size is not None:
        return size == "1"
    return clues.layers is not None and clues.layers <= _LAYERS_1B
