"""Which beginnings of prompts a replica has in its cache, as far as a gateway can know.

A prompt is cut into blocks of bytes and each block is hashed together with all before it, so that one number stands for
a whole beginning. No tokenizer is needed, and what gateways tell each other holds no text.
"""

import struct
from bisect import bisect_left
from collections.abc import Sequence

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
SMALLER = 0.25
"""A cache that lacks what it should have is believed smaller by this part of the way to what it can have held."""
LARGER = 0.05
"""A cache that has more than it should is believed larger by this share."""
LOST = 3
"""So many prompts in a row that should be there and are not at all mean an empty cache: the engine was restarted."""

Chain = tuple[int, ...]
Layer = tuple[int, int]
"""A depth of a prompt, and how many blocks came after what lies above that depth was used last, at most."""

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

    def layers(self, chain: Chain) -> tuple[Layer, ...]:
        """Give what is known of the age of a prompt's blocks, the youngest first; the last layer ends at its depth."""
        if not chain:
            return ()
        found: list[Layer] = []
        generations: list[set[int]] = []
        held = 0
        for generation in self._generations:
            generations.append(generation)
            held += len(generation)
            depth = _depth(generations, chain)
            if depth and (not found or depth > found[-1][0]):
                found.append((depth, held))
            if depth == len(chain):
                break
        return tuple(found)

    def told(self, layers: Sequence[Layer], *, size: int, cached: float) -> None:
        """Take over what an engine says of a prompt of `size` blocks: the share of it that was in its cache.

        `layers`: as they were when the prompt was put to it. What was missing was forgotten for what came after it, so
        it cannot hold as much as that.
        """
        believed = layers[-1][0] / size if layers else 0.0
        if cached < believed - MARGIN:
            bound = next(held for depth, held in layers if depth > cached * size)
            self._resize(self.blocks + min(0.0, bound - self.blocks) * SMALLER)
            self._lost = self._lost + 1 if cached == 0 else 0
            if self._lost >= LOST:
                self.forget()
            return
        self._lost = 0
        if cached > believed + MARGIN:
            self._resize(self.blocks * (1 + LARGER))

    def depth(self, chain: Chain) -> int:
        """Count the blocks at the beginning of a prompt that are there."""
        first, second, third, last = self._generations

        def missing(block: int) -> bool:
            return block not in first and block not in second and block not in third and block not in last

        if not chain or missing(chain[0]):
            return 0
        if chain[-1] in first:
            return len(chain)
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


def _depth(generations: Sequence[set[int]], chain: Chain) -> int:
    return bisect_left(chain, True, key=lambda block: not any(block in generation for generation in generations))


def _empty() -> tuple[set[int], ...]:
    return tuple(set() for _ in range(GENERATIONS))
