"""Which beginnings of prompts a replica has in its cache, as far as a gateway can know.

A prompt is cut into blocks of bytes and each block is hashed together with all before it, so that one number stands for
a whole beginning. No tokenizer is needed, and what gateways tell each other holds no text.
"""

import struct
from bisect import bisect_left

import xxhash

BLOCK_BYTES = 256
"""About 64 tokens: engines keep blocks of 16 to 512 tokens, llama.cpp single ones."""
MAX_BLOCKS = 4096
"""Blocks of one prompt that are looked at (1 MiB, some 250,000 tokens); a longer one is known by its beginning."""
GENERATIONS = 4
"""More follow the engine's own least recently used rule more closely, and cost a look each."""
LEAST_BLOCKS = 64
"""A cache is believed to hold so much, whatever was seen: a prompt of some length and its beginning."""
MOST_BLOCKS = 65_536
"""16 MiB of prompts of one replica, some four million tokens; about 6 MB of memory."""
USUAL_BLOCKS = 16_384
"""Where nothing is known of a replica's cache: what it says of its hits mends it."""
BYTES_PER_TOKEN = 4
"""Roughly; what a replica says of its hits mends it."""
MARGIN = 0.1
"""A belief is wrong when it is off by more than this share of the prompt: engines count whole blocks of tokens."""
STEP = 0.05
"""By so much a cache is believed larger or smaller for each prompt of which too little or too much was believed."""
LOST = 3
"""So many prompts in a row that should be there and are not at all mean an empty cache: the engine was restarted."""

Chain = tuple[int, ...]

_HASH_BYTES = 8
_hash = xxhash.xxh3_64_intdigest


def chain_of(prompt: bytes | memoryview, *, salt: int) -> Chain:
    """Hash each whole block of a prompt, chained to those before it: numbers of 64 bits, the longest beginning last.

    Prompts of different `salt` share nothing. Not a cryptographic hash: whoever makes two prompts collide only has one
    of his own requests put to a replica that is cold for it.
    """
    chain = []
    for end in range(BLOCK_BYTES, min(len(prompt), MAX_BLOCKS * BLOCK_BYTES) + 1, BLOCK_BYTES):
        salt = _hash(prompt[end - BLOCK_BYTES : end], salt)
        chain.append(salt)
    return tuple(chain)


def packed(chain: Chain) -> bytes:
    """Encode a chain, eight bytes a block."""
    return struct.pack(f">{len(chain)}Q", *chain)


def unpacked(data: bytes | memoryview) -> Chain:
    """Decode a chain. Raises `struct.error` for what is none."""
    return struct.unpack(f">{len(data) // _HASH_BYTES}Q", data)


def salt_of(*words: bytes) -> int:
    """Give one salt for all that keeps caches apart: the model, and the client's own cache salt."""
    salt = 0
    for word in words:
        salt = _hash(word, salt)
    return salt


class BelievedCache:
    """What one replica was given lately, within what its cache can hold: the least recently used is forgotten.

    Kept in generations of sets, so that a whole prompt is added, and the oldest are forgotten, at once. A beginning is
    never older than what it is the beginning of: whoever adds a prompt adds all its beginnings.
    """

    __slots__ = ("_generations", "_limit", "_lost", "_most", "blocks")

    def __init__(self, blocks: int = USUAL_BLOCKS, *, most: int = MOST_BLOCKS) -> None:
        self._generations = _empty()
        self._lost = 0
        self._most = most
        self.blocks = float(blocks)
        """What the replica is believed to hold. What is kept here may be less, where memory is short."""
        self._limit = 0
        self._resize(self.blocks)

    def __len__(self) -> int:
        """Count the hashes kept, those in several generations as often."""
        return sum(map(len, self._generations))

    def keep(self, most: int) -> None:
        """Keep so many blocks at most; what is too much goes as more comes."""
        if most != self._most:
            self._most = most
            self._resize(self.blocks)

    def told(self, *, believed: float, cached: float) -> None:
        """Take over what an engine says of a prompt: which share should have been in its cache, and which was."""
        if cached < believed - MARGIN:
            self._resize(self.blocks * (1 - STEP))
            self._lost = self._lost + 1 if cached == 0 else 0
            if self._lost >= LOST:
                self.forget()
            return
        self._lost = 0
        if cached > believed + MARGIN:
            self._resize(self.blocks * (1 + STEP))

    def depth(self, chain: Chain) -> int:
        """Count the blocks at the beginning of a prompt that are there."""
        first, second, third, last = self._generations

        def missing(block: int) -> bool:
            return block not in first and block not in second and block not in third and block not in last

        if not chain or missing(chain[0]):
            return 0
        return bisect_left(chain, True, key=missing)

    def add(self, chain: Chain) -> bool:
        """Note that the replica was given a prompt, or that somebody knows these beginnings to be there.

        False when it was given this very prompt a moment ago: that is no news.
        """
        young = self._generations[0]
        news = bool(chain) and chain[-1] not in young
        young.update(chain)
        if len(young) >= self._limit:
            self._generations = (set(), *self._generations[:-1])
        return news

    def forget(self) -> None:
        """Note that the cache is empty."""
        self._generations = _empty()
        self._lost = 0

    def oldest_first(self) -> tuple[Chain, ...]:
        """Give all of it, to be added elsewhere in this order."""
        return tuple(tuple(generation) for generation in reversed(self._generations) if generation)

    def _resize(self, blocks: float) -> None:
        self.blocks = min(max(blocks, LEAST_BLOCKS), MOST_BLOCKS)
        self._limit = max(min(int(self.blocks), self._most), LEAST_BLOCKS) // GENERATIONS


def _empty() -> tuple[set[int], ...]:
    return tuple(set() for _ in range(GENERATIONS))
