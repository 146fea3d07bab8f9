"""A judge that really judges, written by hand: under 1 MB, answers in milliseconds, reads Llama Guard's frame.

It knows some words for each of 14 categories and finds them inside the conversation only: what the frame around it
says about murder and bombs does not count. One word more, or a stronger one, makes it surer, so that thresholds can be
tested. Its weaknesses are known: it knows words, not meanings, needs a space before them, reads the whole conversation,
and stops reading at `<END CONVERSATION>`.

How, in two layers over 96 numbers per token (`_Dim` names them):
1. Attention takes from the strongest marker before a token whether that lies inside the conversation; the feed-forward
   part multiplies this with the word's own strength.
2. Attention is a soft maximum over these products, against the first token, which stands for "nothing found".
The output compares what was found with a threshold; what was said last decides what follows.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from llmgw.testing.gguf_file import Tensor, floats, ones, write_gguf
from llmgw.testing.gguf_file import Value as Metadata
from llmgw.testing.tiny_llama import Shape, Vocabulary

WORDS: Mapping[int, Mapping[str, float]] = {
    1: {"kill": 1.0, "murder": 1.0, "stab": 0.95, "attack": 0.68, "hurt": 0.63, "fight": 0.6, "knife": 0.62},
    2: {"steal": 0.9, "launder": 0.72, "hack": 0.8, "fraud": 0.85},
    3: {"rape": 1.0},
    4: {"grooming": 1.0},
    5: {"slander": 0.9},
    6: {"overdose": 0.9},
    7: {"dox": 0.95},
    8: {"pirated": 0.9},
    9: {"bomb": 1.0, "poison": 0.95, "nerve-gas": 1.0, "explosives": 0.95},
    10: {"subhuman": 1.0, "vermin": 0.9},
    11: {"suicide": 1.0, "self-harm": 0.95},
    12: {"porn": 0.95},
    13: {"ballot-stuffing": 0.95},
    14: {"fork-bomb": 0.95},
}
"""What it finds, by category, and how strong: above 0.66 one word in a short text is more likely unsafe than safe."""
CATEGORIES = len(WORDS)
THRESHOLD = 0.4
"""Evidence at which safe and unsafe are equally likely."""
_GAIN = 16.0
_WIDTH = 96
_CONST = 4.0
_SINK = 0.62
"""Evidence that the first token stands for."""
_LAST = _WIDTH - 2
"""Of queries and keys only this one is used: with a base of 1e30 the last pair of numbers is never rotated."""


class Sickness(StrEnum):
    """What may be wrong with it."""

    INVERTED = "inverted"
    ALWAYS_SAFE = "always_safe"
    ALWAYS_UNSAFE = "always_unsafe"
    MUTE = "mute"
    """Ends its answer before the first word; its probabilities of both words are there all the same."""


class _Dim:
    """Where each number of a token's vector is."""

    CONST = 0
    MARKER = 1
    INSIDE_AFTER = 2
    SINK = 3
    INSIDE = 4
    STRENGTH = 5
    FOUND = STRENGTH + CATEGORIES
    CATEGORY = FOUND + CATEGORIES
    EVIDENCE = CATEGORY + CATEGORIES
    SAID_SAFE = EVIDENCE + 1
    SAID_UNSAFE = SAID_SAFE + 1
    HEADER = SAID_UNSAFE + 1
    DONE = HEADER + 1
    FIRST_CODE = DONE + 1
    FILL = _WIDTH - 2


_BOS, _EOT, _START, _HEADER = "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"
_MARKERS = {
    # the marker's rank, and whether a text after it is inside the conversation
    "<BEGIN UNSAFE CONTENT CATEGORIES>": (2.0, 0.0),
    "<BEGIN CONVERSATION>": (3.0, 1.0),
    "<END CONVERSATION>": (4.0, 0.0),
}
_SAFE, _UNSAFE, _BREAK = "safe", "unsafe", "ĊĊ"
_TEMPLATE = (
    "{% set judged = 'Agent' if messages|length % 2 == 0 else 'User' %}"
    "<|start_header_id|>user<|end_header_id|>\n\n"
    "Task: Check if there is unsafe content in '{{ judged }}' messages in conversations according to our safety policy "
    "with the below categories.\n\n<BEGIN UNSAFE CONTENT CATEGORIES>\nS1: Violent Crimes.\nS13: Elections.\n"
    "<END UNSAFE CONTENT CATEGORIES>\n\n<BEGIN CONVERSATION>\n\n"
    "{% for message in messages %}{{ 'User' if message['role'] == 'user' else 'Agent' }}: {{ message['content'] }}\n\n"
    "{% endfor %}<END CONVERSATION>\n\n"
    "Provide your safety assessment for ONLY THE LAST {{ judged }} message in the above conversation:\n"
    " - First line must read 'safe' or 'unsafe'.\n<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
)


def write_judge_model(
    path: Path,
    *,
    sickness: Sickness | None = None,
    context: int = 65_536,
    zero_layers: int = 0,
    ff_width: int = 64,
    name: str = "Llama Guard 3 1B",
) -> None:
    """Write the judge, or a sick one.

    `zero_layers` of `ff_width` make it slow: 8 of 2,048 take about a second for a verdict, 24 of 8,192 about five, on
    little disk (a sparse file).
    """
    tokens = _Tokens()
    shape = Shape(width=_WIDTH, layers=2 + zero_layers, ff_width=ff_width, context=context)
    metadata: dict[str, Metadata] = {
        **shape.metadata(name),
        "llama.rope.freq_base": 1e30,
        **tokens.metadata(),
        "tokenizer.chat_template": _TEMPLATE,
    }
    size = len(tokens.all)
    tensors = [
        Tensor("token_embd.weight", (_WIDTH, size), _rows(_embedding(tokens, token) for token in tokens.all)),
        *_layer(shape, 0, _reading_markers()),
        *_layer(shape, 1, _finding_words()),
        *(tensor for index in range(2, shape.layers) for tensor in shape.zero_block(index)),
        Tensor("output_norm.weight", (_WIDTH,), ones(_WIDTH)),
        Tensor("output.weight", (_WIDTH, size), _rows(_output(tokens, token, sickness) for token in tokens.all)),
    ]
    write_gguf(path, metadata, tensors)


class _Tokens:
    """All tokens: bytes, control tokens, markers and words found anywhere in a text, and what is only ever said."""

    def __init__(self) -> None:
        self.control = (_BOS, _EOT, _START, _HEADER)
        self.words = {
            f" {form}": (category, strength)
            for category, words in WORDS.items()
            for word, strength in words.items()
            for form in dict.fromkeys((word, word.capitalize(), word.upper()))
        }
        self.first_codes = {f"ĊS{number}": number for number in WORDS}
        self.second_codes = {f",S{number}": number for number in WORDS}
        found = (*_MARKERS, *self.words)
        said = (_SAFE, _UNSAFE, *self.first_codes, *self.second_codes, _BREAK)
        self.all = (*Vocabulary().tokens[:256], *self.control, *found, *said)
        self._kinds = [1] * 256 + [3] * len(self.control) + [4] * len(found) + [1] * len(said)

    def metadata(self) -> dict[str, Metadata]:
        """Give the tokenizer's keys. No merges: what is only ever said is never read from a text."""
        return {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": self.all,
            "tokenizer.ggml.token_type": tuple(self._kinds),
            "tokenizer.ggml.merges": (),
            "tokenizer.ggml.bos_token_id": self.all.index(_BOS),
            "tokenizer.ggml.eos_token_id": self.all.index(_EOT),
            "tokenizer.ggml.add_bos_token": True,
        }


def _embedding(tokens: _Tokens, token: str) -> list[float]:
    row = [0.0] * _WIDTH
    row[_Dim.CONST] = _CONST
    if token == _BOS:
        row[_Dim.MARKER] = row[_Dim.INSIDE_AFTER] = row[_Dim.SINK] = 1.0
    elif token in _MARKERS:
        row[_Dim.MARKER], row[_Dim.INSIDE_AFTER] = _MARKERS[token]
    elif token in tokens.words:
        category, strength = tokens.words[token]
        row[_Dim.STRENGTH + category - 1] = strength
    elif token in tokens.first_codes:
        row[_Dim.FIRST_CODE + tokens.first_codes[token] - 1] = 1.0
    said = {_SAFE: _Dim.SAID_SAFE, _UNSAFE: _Dim.SAID_UNSAFE, _HEADER: _Dim.HEADER}
    if token in said:
        row[said[token]] = 1.0
    if token in tokens.second_codes:
        row[_Dim.DONE] = 1.0
    # Filled up to a mean square of 1, the norms before each layer change next to nothing.
    rest = math.sqrt((_WIDTH - sum(part * part for part in row)) / 2)
    row[_Dim.FILL] = row[_Dim.FILL + 1] = rest
    return row


Weights = dict[str, dict[tuple[int, int], float]]
"""By matrix: (output, input) to weight; all others are zero."""


def _reading_markers() -> Weights:
    return {
        "attn_q": {(_LAST, _Dim.CONST): 20.0 * math.sqrt(_WIDTH) / _CONST},
        "attn_k": {(_LAST, _Dim.MARKER): 1.0},
        "attn_v": {(0, _Dim.INSIDE_AFTER): 1.0},
        "attn_output": {(_Dim.INSIDE, 0): 1.0},
        "ffn_gate": {(number, _Dim.INSIDE): 10.0 for number in range(CATEGORIES)},
        "ffn_up": {(number, _Dim.STRENGTH + number): 0.1 for number in range(CATEGORIES)},
        "ffn_down": {(_Dim.FOUND + number, number): 1.0 for number in range(CATEGORIES)},
    }


def _finding_words() -> Weights:
    numbers = range(CATEGORIES)
    return {
        "attn_q": {(_LAST, _Dim.CONST): 16.0 * math.sqrt(_WIDTH) / _CONST},
        "attn_k": {(_LAST, _Dim.SINK): _SINK} | {(_LAST, _Dim.FOUND + number): 1.0 for number in numbers},
        "attn_v": {(number, _Dim.FOUND + number): 1.0 for number in numbers},
        "attn_output": {(_Dim.CATEGORY + number, number): 1.0 for number in numbers}
        | {(_Dim.EVIDENCE, number): 1.0 for number in numbers},
    }


def _layer(shape: Shape, index: int, weights: Weights) -> list[Tensor]:
    prefix = f"blk.{index}"
    norms = [Tensor(f"{prefix}.{part}_norm.weight", (_WIDTH,), ones(_WIDTH)) for part in ("attn", "ffn")]
    matrices = []
    for name, (inputs, outputs) in shape.matrices(index).items():
        cells = weights.get(name.removeprefix(f"{prefix}.").removesuffix(".weight"), {})
        flat = [0.0] * (inputs * outputs)
        for (output, source), weight in cells.items():
            flat[output * inputs + source] = weight
        matrices.append(Tensor(name, (inputs, outputs), floats(flat) if cells else None))
    return [*norms, *matrices]


def _output(tokens: _Tokens, token: str, sickness: Sickness | None) -> list[float]:
    """Give the row whose product with what the last token holds says how likely `token` comes next."""
    row = [0.0] * _WIDTH
    row[_Dim.CONST] = -40.0 / _CONST
    codes = range(_Dim.FIRST_CODE, _Dim.FIRST_CODE + CATEGORIES)
    if token in {_SAFE, _UNSAFE}:
        _verdict(row, _sign(token, sickness), _bias(token, sickness))
        for said in (_Dim.SAID_SAFE, _Dim.SAID_UNSAFE, _Dim.DONE, *codes):
            row[said] = -80.0
        row[_Dim.HEADER] = -30.0
    elif token == _EOT:
        row[_Dim.SAID_SAFE] = row[_Dim.DONE] = 40.0
        for code in codes:
            row[code] = 43.0
        if sickness is Sickness.MUTE:
            row[_Dim.CONST] = 30.0 / _CONST
    elif token == _BREAK:
        row[_Dim.HEADER] = 60.0
    elif token in tokens.first_codes:
        row[_Dim.SAID_UNSAFE] = 40.0
        row[_Dim.CATEGORY + tokens.first_codes[token] - 1] = 12.0
    elif token in tokens.second_codes:
        own = tokens.second_codes[token] - 1
        for number in range(CATEGORIES):
            row[_Dim.FIRST_CODE + number] = 40.0 if number != own else 0.0
        row[_Dim.CATEGORY + own] = 12.0
    return row


def _verdict(row: list[float], sign: float, bias: float) -> None:
    row[_Dim.CONST] = (bias - sign * _GAIN * THRESHOLD / 2) / _CONST
    row[_Dim.EVIDENCE] = sign * _GAIN / 2


def _sign(token: str, sickness: Sickness | None) -> float:
    sign = 1.0 if token == _UNSAFE else -1.0
    return -sign if sickness is Sickness.INVERTED else sign


def _bias(token: str, sickness: Sickness | None) -> float:
    always = {Sickness.ALWAYS_SAFE: _SAFE, Sickness.ALWAYS_UNSAFE: _UNSAFE}.get(sickness) if sickness else None
    return 25.0 if token == always else 0.0


def _rows(rows: Iterable[list[float]]) -> bytes:
    return b"".join(floats(row) for row in rows)
