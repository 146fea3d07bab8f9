"""The random model: answers nonsense, invalid UTF-8 included. As embedding model it is deterministic and normalised."""

import random
from pathlib import Path

from llmgw.testing.gguf_file import Tensor, floats, ones, write_gguf
from llmgw.testing.tiny_llama import CHAT_TEMPLATE, Shape, Vocabulary


def write_random_model(
    path: Path,
    *,
    width: int = 32,
    layers: int = 1,
    context: int = 2048,
    seed: int = 1,
    name: str = "random",
) -> None:
    """Write the model: about 100 KB at width 32, loaded in 0.2 s. Embeddings have `width` numbers."""
    dice = random.Random(seed)
    words = Vocabulary()
    shape = Shape(width=width, layers=layers, ff_width=2 * width, context=context)
    size = len(words.tokens)
    tensors = [_noise("token_embd.weight", (width, size), dice)]
    for index in range(layers):
        tensors += [Tensor(f"blk.{index}.{part}_norm.weight", (width,), ones(width)) for part in ("attn", "ffn")]
        tensors += [_noise(matrix, extents, dice) for matrix, extents in shape.matrices(index).items()]
    tensors += [Tensor("output_norm.weight", (width,), ones(width)), _noise("output.weight", (width, size), dice)]
    write_gguf(path, {**shape.metadata(name), **words.metadata(chat_template=CHAT_TEMPLATE)}, tensors)


def _noise(name: str, shape: tuple[int, int], dice: random.Random) -> Tensor:
    return Tensor(name, shape, floats([dice.gauss(0.0, 0.5) for _ in range(shape[0] * shape[1])]))
