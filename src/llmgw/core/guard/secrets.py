"""Secrets in texts: tokens of known shape, and words too random to be words in places where secrets stand."""

import math
from collections import Counter
from collections.abc import Collection, Iterator

from llmgw.core.guard.linear import Pattern, Place
from llmgw.schema.guard.rule import SecretKind
from llmgw.schema.guard.verdict import Span

ENTROPY = 3.3
"""Bits per character from which on a word counts as random: English words of 12 letters and more stay below 3.2."""
LOOK_BACK = 8192
"""Characters of a private key at most: that of 8,192 bits has 6,400."""
_NAMED = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credential|api[_-]?key|access[_-]?key|auth[_-]?key)"

SHAPES: dict[SecretKind, str] = {
    # The header is enough to tell; where the key ends is looked for then, or its time would be quadratic.
    SecretKind.PRIVATE_KEY: r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----",
    SecretKind.AWS_KEY: r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    SecretKind.GITHUB_TOKEN: r"\b(?:gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{22,255})\b",
    SecretKind.GITLAB_TOKEN: r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,64}",
    SecretKind.GOOGLE_KEY: r"\bAIza[A-Za-z0-9_-]{35}",
    SecretKind.SLACK_TOKEN: r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}|https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
    SecretKind.STRIPE_KEY: r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,247}\b",
    SecretKind.ANTHROPIC_KEY: r"\bsk-ant-[A-Za-z0-9_-]{20,200}",
    SecretKind.OPENAI_KEY: r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,200}",
    SecretKind.HUGGINGFACE_TOKEN: r"\bhf_[A-Za-z0-9]{30,}\b",
    SecretKind.NPM_TOKEN: r"\bnpm_[A-Za-z0-9]{36}\b",
    SecretKind.PYPI_TOKEN: r"\bpypi-[A-Za-z0-9_-]{50,}",
    SecretKind.LLMGW_KEY: r"\bl[kte]_[A-Za-z0-9]{24,}\b",
    SecretKind.JWT: r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}",
    SecretKind.URL_PASSWORD: r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:([^\s/@]{3,100})@",
    SecretKind.RANDOM_WORD: (
        rf"(?i:{_NAMED})[A-Za-z0-9_]{{0,20}}[\"'`]?(?:\s{{0,3}}(?:[:=]|=>|:=)|\s+is)\s{{0,3}}[\"'`]?"
        r"([A-Za-z0-9+/_.~!#$%^&*=-]{12,256})"
    ),
}
"""How the makers of these tokens describe them; of the last, how configuration files name them."""


class SecretScanner:
    """Finds the chosen kinds of secrets."""

    def __init__(self, kinds: Collection[SecretKind]) -> None:
        chosen = {kind: shape for kind, shape in SHAPES.items() if kind in kinds}
        self._patterns = tuple((kind, Pattern(shape)) for kind, shape in chosen.items())
        # One pass over a text without secrets, instead of one for each kind.
        self._any = Pattern("|".join(f"(?:{shape})" for shape in chosen.values()))
        self.look_back = LOOK_BACK if SecretKind.PRIVATE_KEY in chosen else 0
        """Characters before a window that decide what stands in it: a key without its header is no key."""

    def spans(self, text: str) -> Iterator[Span]:
        """Give the places, kind by kind."""
        if not self._any.found(text):
            return
        for kind, pattern in self._patterns:
            for place in pattern.places(text):
                if kind is SecretKind.PRIVATE_KEY:
                    yield Span(start=place.start, end=_key_end(text, place.end), kind=kind.value)
                elif kind is not SecretKind.RANDOM_WORD or _random(text, place):
                    yield Span(start=place.start, end=place.end, kind=kind.value)


def entropy(word: str) -> float:
    """Give the bits per character that the word's own letters carry."""
    counts = Counter(word)
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values())


def _key_end(text: str, at: int) -> int:
    """Find where the key ends whose header ends at `at`. A key that is cut reaches to the end of the text."""
    last = min(len(text), at + LOOK_BACK)
    footer = text.find("-----END ", at, last)
    if footer < 0:
        return last
    end = text.find("-----", footer + len("-----END "), last)
    return last if end < 0 else end + len("-----")


def _random(text: str, place: Place) -> bool:
    word = text[place.start : place.end]
    mixed = any(letter.isdigit() for letter in word) and any(letter.isalpha() for letter in word)
    return mixed and entropy(word) >= ENTROPY
