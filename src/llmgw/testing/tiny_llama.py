"""What all tiny hand-written models share: a byte tokenizer, a chat template, the keys of a llama."""

from dataclasses import dataclass
from enum import IntEnum

from llmgw.testing.gguf_file import Tensor, Value, ones

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The turn format known as ChatML."""

BOS, END, START = "<|endoftext|>", "<|im_end|>", "<|im_start|>"


class _TokenType(IntEnum):
    NORMAL = 1
    CONTROL = 3
    USER_DEFINED = 4
    """Found as a plain substring anywhere in a text, longest first, before anything else."""


@dataclass(frozen=True)
class Vocabulary:
    """The 256 bytes, three control tokens, then `words`, matched anywhere in a text."""

    words: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in order of their ids."""
        return (*_byte_characters(), BOS, END, START, *self.words)

    @property
    def end(self) -> int:
        """Id of the token that ends an answer."""
        return 257

    @property
    def first_word(self) -> int:
        """Id of the first word."""
        return 259

    def metadata(self, *, chat_template: str | None) -> dict[str, Value]:
        """Give the tokenizer's keys. No merges: each byte outside a word is a token of its own."""
        kinds = [_TokenType.NORMAL] * 256 + [_TokenType.CONTROL] * 3 + [_TokenType.USER_DEFINED] * len(self.words)
        keys: dict[str, Value] = {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": tuple(int(kind) for kind in kinds),
            "tokenizer.ggml.merges": (),
            "tokenizer.ggml.bos_token_id": 256,
            "tokenizer.ggml.eos_token_id": self.end,
            "tokenizer.ggml.add_bos_token": True,
        }
        if chat_template is not None:
            keys["tokenizer.chat_template"] = chat_template
        return keys


@dataclass(frozen=True)
class Shape:
    """Size of a llama with one attention head."""

    width: int
    layers: int
    ff_width: int
    context: int

    def metadata(self, name: str) -> dict[str, Value]:
        """Give the architecture's keys."""
        return {
            "general.architecture": "llama",
            "general.name": name,
            "llama.context_length": self.context,
            "llama.embedding_length": self.width,
            "llama.block_count": self.layers,
            "llama.feed_forward_length": self.ff_width,
            "llama.attention.head_count": 1,
            "llama.attention.head_count_kv": 1,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
        }

    def zero_block(self, index: int) -> list[Tensor]:
        """Give a layer that changes nothing and costs its weights' reading: a brake."""
        prefix = f"blk.{index}"
        matrices = self.matrices(index)
        return [
            Tensor(f"{prefix}.attn_norm.weight", (self.width,), ones(self.width)),
            Tensor(f"{prefix}.ffn_norm.weight", (self.width,), ones(self.width)),
            *(Tensor(name, shape) for name, shape in matrices.items()),
        ]

    def matrices(self, index: int) -> dict[str, tuple[int, int]]:
        """Name the matrices of one layer, with their shapes."""
        prefix, width, ff_width = f"blk.{index}", self.width, self.ff_width
        square = {f"{prefix}.attn_{part}.weight": (width, width) for part in ("q", "k", "v", "output")}
        return {
            **square,
            f"{prefix}.ffn_gate.weight": (width, ff_width),
            f"{prefix}.ffn_up.weight": (width, ff_width),
            f"{prefix}.ffn_down.weight": (ff_width, width),
        }


def _byte_characters() -> tuple[str, ...]:
    """Name all bytes by the printable characters that GPT-2's tokenizer uses for them."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(spare)) for byte in range(256))
