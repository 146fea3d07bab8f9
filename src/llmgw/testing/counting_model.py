"""The counting model: whatever it is asked, it says " 1 2 3 …" up to its last number and stops.

A lost, doubled, swapped or mixed chunk of an answer is visible at once, and the usage is known beforehand:
`last` + 1 tokens, the end included. A raw prompt that ends in " 4" goes on with " 5".

How: each number has a random code of ±1. The embedding of " k" is its code, of anything else the zeroth code. The
layers change nothing. The output row of " k+1" is the code of " k", so only it answers strongly.
"""

import random
from pathlib import Path

from llmgw.testing.gguf_file import Tensor, floats, ones, write_gguf
from llmgw.testing.tiny_llama import CHAT_TEMPLATE, Shape, Vocabulary

_GAIN = 0.5
_NARROW_UP_TO = 500
"""More codes than this need more than 64 numbers to stay unlike each other."""


def write_counting_model(
    path: Path,
    *,
    last: int = 500,
    context: int = 4096,
    zero_layers: int = 1,
    ff_width: int = 64,
    chat_template: str | None = CHAT_TEMPLATE,
    name: str = "counting",
) -> None:
    """Write the model: about 0.5 MB, loaded in 0.2 s.

    `zero_layers` (at least 1) layers of `ff_width` are the brake: 24 of 8,192 make about 50 tokens a second, on 2 MB
    of disk (a sparse file).
    """
    width = 64 if last <= _NARROW_UP_TO else 128
    words = Vocabulary(tuple(f" {number}" for number in range(1, last + 1)))
    shape = Shape(width=width, layers=zero_layers, ff_width=ff_width, context=context)
    codes = _codes(last + 1, width)
    size = len(words.tokens)
    tensors = [
        Tensor("token_embd.weight", (width, size), _embedding(words, codes)),
        *(tensor for index in range(zero_layers) for tensor in shape.zero_block(index)),
        Tensor("output_norm.weight", (width,), ones(width)),
        Tensor("output.weight", (width, size), _output(words, codes)),
    ]
    write_gguf(path, {**shape.metadata(name), **words.metadata(chat_template=chat_template)}, tensors)


def _codes(count: int, width: int) -> list[list[float]]:
    dice = random.Random(1)
    return [[dice.choice((-1.0, 1.0)) for _ in range(width)] for _ in range(count)]


def _embedding(words: Vocabulary, codes: list[list[float]]) -> bytes:
    other = floats(codes[0]) * words.first_word
    return other + b"".join(floats(code) for code in codes[1:])


def _output(words: Vocabulary, codes: list[list[float]]) -> bytes:
    rows = [bytes(4 * len(codes[0]))] * words.first_word
    rows += [floats([_GAIN * part for part in code]) for code in codes[:-1]]
    rows[words.end] = floats([_GAIN * part for part in codes[-1]])
    return b"".join(rows)
