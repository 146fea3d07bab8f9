"""Which beginnings of prompts a replica has in its cache, as far as a gateway can know.

A prompt is cut into blocks of bytes and each block is hashed together with all before it, so that one number stands for
a whole beginning. No tokenizer is needed, and what gateways tell each other holds no text.
"""

import functools
import struct
from bisect import bisect_left
from collections.abc import Sequence

import xxhash

BLOCK_BYTES = 256
"""About 64 tokens: engines keep blocks of 16 to 512 tokens, llama.cpp single ones."""
MAX_BLOCKS = 4096
"""Blocks of one prompt that are looked at (1 MiB, some 250,000 tokens); a longer one is known by its beginning."""
GENERATIONS = 8
"""Into which a cache's blocks are parted by age: the more, the closer to an engine's own rule, least recently used."""
MOST_GENERATIONS = 32
"""Where the same blocks are used over and over, older generations are all but empty: memory is bounded by this."""
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
SMALLER = 0.5
"""A cache that lacks what it should have is believed smaller by this part of the way to what it can have held."""
LARGER = 0.05
"""A cache that has more than it should is believed larger by this share."""
LOST = 3
"""So many prompts in a row that should be there and are not at all mean an empty cache: the engine was restarted."""

Chain = tuple[int, ...]
Layer = tuple[int, int]
"""A depth of a prompt, and how many blocks at most were used since the block above that depth was."""

_HASH_BYTES = 8
_hash = xxhash.xxh3_64_intdigest


def chain_of(prompt: bytes | memoryview, *, salt: int) -> Chain:
    """Hash each whole block of a prompt, chained to those before it: numbers of 64 bits, the longest beginning last.

    Prompts of different `salt` share nothing. Not a cryptographic hash: whoever makes two prompts collide only has one
    of his own requests put to a replica that is cold for it.
    """
    prompt = bytes(prompt[: MAX_BLOCKS * BLOCK_BYTES])  # slices of bytes cost less than those of a view
    chain = []
    for end in range(BLOCK_BYTES, len(prompt) + 1, BLOCK_BYTES):
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

    Kept in generations, so that the oldest are forgotten at once. A beginning is never older than what it is the
    beginning of: whoever adds a prompt adds all its beginnings.
    """

    __slots__ = ("_generations", "_held", "_lost", "_most", "_newest", "blocks")

    def __init__(self, blocks: float = USUAL_BLOCKS, *, most: int = MOST_BLOCKS) -> None:
        self._held: dict[int, int] = {}
        """By block: the generation in which it was used last."""
        self._newest = 0
        self._generations: dict[int, _Generation] = {0: _Generation()}
        """Oldest first."""
        self._lost = 0
        self._most = most
        self.blocks = _bounded(blocks)
        """What the replica is believed to hold. What is kept here may be less, where memory is short."""

    def __len__(self) -> int:
        """Count the blocks that are kept."""
        return len(self._held)

    def depth(self, chain: Chain) -> int:
        """Count the blocks at the beginning of a prompt that are there."""
        held = self._held
        if not chain or chain[0] not in held:
            return 0
        if chain[-1] in held:
            return len(chain)
        return bisect_left(chain, True, key=lambda block: block not in held)

    def layers(self, chain: Chain) -> tuple[Layer, ...]:
        """Give what is known of the age of a prompt's blocks, the youngest first; the last layer ends at its depth."""
        depth = self.depth(chain)
        if not depth:
            return ()
        held = self._held
        if held[chain[depth - 1]] == self._newest:
            return ((depth, self._generations[self._newest].live),)
        found: list[Layer] = []
        since = 0
        for number in reversed(self._generations):
            since += self._generations[number].live
            end = bisect_left(chain, True, hi=depth, key=functools.partial(_older, held, number))
            if end and (not found or end > found[-1][0]):
                found.append((end, since))
            if end == depth:
                break
        return tuple(found)

    def add(self, chain: Chain) -> bool:
        """Note that the replica was given a prompt, or that somebody knows these beginnings to be there.

        False when it was given this very prompt a moment ago: that is no news.
        """
        held, now = self._held, self._newest
        if not chain or held.get(chain[-1]) == now:
            return False
        newest = self._generations[now]
        for block in chain:
            before = held.get(block)
            if before == now:
                continue
            if before is not None:
                self._generations[before].live -= 1
            held[block] = now
            newest.blocks.append(block)
            newest.live += 1
        self._trim()
        return True

    def keep(self, most: int) -> None:
        """Keep so many blocks at most."""
        self._most = most
        self._trim()

    def told(self, layers: Sequence[Layer], *, size: int, cached: float) -> None:
        """Take over what an engine says of a prompt of `size` blocks: the share of it that was in its cache.

        `layers`: as they were when the prompt was put to it. What was missing was forgotten for what came after it, so
        it cannot hold as much as that.
        """
        believed = layers[-1][0] / size if layers else 0.0
        if cached < believed - MARGIN:
            bound = next(since for depth, since in layers if depth > cached * size)
            self.blocks = _bounded(self.blocks + min(0.0, bound - self.blocks) * SMALLER)
            self._trim()
            self._lost = self._lost + 1 if cached == 0 else 0
            if self._lost >= LOST:
                self.forget()
            return
        self._lost = 0
        if cached > believed + MARGIN:
            self.blocks = _bounded(self.blocks * (1 + LARGER))

    def forget(self) -> None:
        """Note that the cache is empty."""
        self._held = {}
        self._generations = {self._newest: _Generation()}
        self._lost = 0

    def all(self) -> tuple[Chain, ...]:
        """Give all of it, oldest first, to be added elsewhere in this order."""
        held = self._held
        return tuple(
            tuple(block for block in generation.blocks if held.get(block) == number)
            for number, generation in self._generations.items()
            if generation.live
        )

    def _trim(self) -> None:
        """Begin a new generation where the newest is full, and forget the oldest where there is too much."""
        limit = max(min(int(self.blocks), self._most), LEAST_BLOCKS)
        if len(self._generations[self._newest].blocks) >= limit // GENERATIONS:
            self._newest += 1
            self._generations[self._newest] = _Generation()
        while len(self._generations) > 1 and (
            len(self._held) > limit or len(self._generations) > MOST_GENERATIONS or not self._oldest.live
        ):
            self._drop_oldest()

    @property
    def _oldest(self) -> "_Generation":
        return self._generations[next(iter(self._generations))]

    def _drop_oldest(self) -> None:
        number = next(iter(self._generations))
        held = self._held
        for block in self._generations.pop(number).blocks:
            if held.get(block) == number:
                del held[block]


class _Generation:
    """Blocks in the order in which they were used, and how many of them were not used again later."""

    __slots__ = ("blocks", "live")

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.live = 0


def _older(held: dict[int, int], number: int, block: int) -> bool:
    return held[block] < number


def _bounded(blocks: float) -> float:
    return min(max(float(blocks), LEAST_BLOCKS), MOST_BLOCKS)
