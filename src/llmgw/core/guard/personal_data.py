"""Personal data in texts: what has a form and check digits. Names and addresses have neither: those need a judge."""

from collections.abc import Callable, Collection, Iterator
from ipaddress import ip_address

import phonenumbers
from stdnum import iban, luhn
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fr import nir
from stdnum.it import codicefiscale
from stdnum.pl import pesel
from stdnum.us import ssn

from llmgw.core.guard.linear import Pattern, Place
from llmgw.schema.guard.rule import PersonalDataKind
from llmgw.schema.guard.verdict import Span

Finder = Callable[[str], Iterator[Place]]

_EMAIL = r"[A-Za-z0-9._%+'-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,8}[A-Za-z]{2,24}\b"
_PHONE = r"\+?[\d(][\d ()./-]{5,24}\d"
_IBAN = r"(?i)\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}"
_CARD = r"\d{4}(?:[ -]\d{4}){3}(?:[ -]\d{3})?|\d{4}[ -]\d{6}[ -]\d{5}|\d{13,19}"
"""As cards and people write them: in fours, as American Express does, or in one."""
_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}"
_IPV6 = r"(?i)(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}"
_CARD_FIRST = frozenset("23456")
"""First digits of payment cards; 1, 7, 8 and 9 are used otherwise."""
_CARD_LEAST = 13
_PHONE_DIGITS = range(7, 16)
"""Digits of a telephone number with its prefix (E.164: 15 at most); fewer than 7 are no number of a person."""
_ADDRESS_LEAST = 7
"""Characters of the shortest address of four numbers."""
_IBAN_LEAST, _IBAN_MOST = 15, 34

_NUMBERS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (r"\b\d{3}-\d{2}-\d{4}\b", ssn.is_valid),
    (r"\b\d{2} ?\d{3} ?\d{3} ?\d{3}\b", idnr.is_valid),
    (r"\b\d{11}\b", pesel.is_valid),
    (r"\b[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}\b", nir.is_valid),
    (r"(?i)\b\d{8}-?[A-Z]\b", dni.is_valid),
    (r"(?i)\b[XYZ]-?\d{7}-?[A-Z]\b", nie.is_valid),
    (r"(?i)\b[A-Z]{6}[0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{3}[A-Z]\b", codicefiscale.is_valid),
)
"""National numbers that carry check digits (the first: a form that nothing else has)."""


class PersonalDataScanner:
    """Finds the chosen kinds. `regions` are countries whose telephone numbers count without their prefix too."""

    look_back = 0

    def __init__(self, kinds: Collection[PersonalDataKind], regions: Collection[str] = ()) -> None:
        every = _finders(tuple(regions))
        self._finders = tuple((kind, every[kind]) for kind in PersonalDataKind if kind in kinds)
        self._any = Pattern("[0-9@]")
        """What all of it has: most texts have neither, and are done with."""

    def spans(self, text: str) -> Iterator[Span]:
        """Give the places, kind by kind."""
        if not self._any.found(text):
            return
        for kind, finder in self._finders:
            for place in finder(text):
                yield Span(start=place.start, end=place.end, kind=kind.value)


def regions() -> frozenset[str]:
    """Name the countries whose telephone numbers are known."""
    return frozenset(phonenumbers.SUPPORTED_REGIONS)


def _finders(regions: tuple[str, ...]) -> dict[PersonalDataKind, Finder]:
    email, phone, ibans, card = Pattern(_EMAIL), Pattern(_PHONE), Pattern(_IBAN), Pattern(_CARD)
    addresses = (Pattern(_IPV4), Pattern(_IPV6))
    numbers = tuple((Pattern(shape), valid) for shape, valid in _NUMBERS)
    return {
        PersonalDataKind.EMAIL: email.places,
        PersonalDataKind.PHONE: lambda text: _phones(text, phone, regions),
        PersonalDataKind.IBAN: lambda text: _ibans(text, ibans),
        PersonalDataKind.CARD: lambda text: _cards(text, card),
        PersonalDataKind.IP_ADDRESS: lambda text: _addresses(text, addresses),
        PersonalDataKind.NATIONAL_ID: lambda text: _national(text, numbers),
    }


def _phones(text: str, pattern: Pattern, regions: tuple[str, ...]) -> Iterator[Place]:
    for start, end in pattern.places(text):
        if start and (text[start - 1].isalnum() or text[start - 1] == "+"):
            continue
        length = _phone_length(text[start:end], regions)
        if length:
            yield Place(start, start + length)


def _phone_length(candidate: str, regions: tuple[str, ...]) -> int:
    """Give the length of the telephone number that `candidate` starts with: dates and prices may follow it; 0: none."""
    regions_here: tuple[str | None, ...] = (None,) if candidate.startswith("+") else regions
    ends = [len(candidate), *(at for at in range(len(candidate) - 1, 6, -1) if candidate[at] in " /")]
    for end in ends[:3]:
        number = candidate[:end]
        digits = sum(letter.isdigit() for letter in number)
        if digits in _PHONE_DIGITS and any(_is_phone(number, region) for region in regions_here):
            return end
    return 0


def _is_phone(number: str, region: str | None) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number, region))
    except phonenumbers.NumberParseException:
        return False


def _ibans(text: str, pattern: Pattern) -> Iterator[Place]:
    for start, end in pattern.places(text):
        at = [index for index in range(start, end) if text[index] not in " -"]
        for length in range(min(len(at), _IBAN_MOST), _IBAN_LEAST - 1, -1):
            # Words may follow the number: only its country's own length is valid.
            last = at[length - 1] + 1
            if iban.is_valid(text[start:last]):
                yield Place(start, last)
                break


def _cards(text: str, pattern: Pattern) -> Iterator[Place]:
    for start, end in pattern.places(text):
        if _touches_digit(text, start, end) or text[start] not in _CARD_FIRST:
            continue
        digits = "".join(letter for letter in text[start:end] if letter.isdigit())
        if len(digits) >= _CARD_LEAST and len(set(digits)) > 1 and luhn.is_valid(digits):
            yield Place(start, end)


def _addresses(text: str, patterns: tuple[Pattern, ...]) -> Iterator[Place]:
    for pattern in patterns:
        for start, end in pattern.places(text):
            if not _touches(text, start, end) and _is_address(text[start:end]):
                yield Place(start, end)


def _is_address(word: str) -> bool:
    """Tell addresses from names in programs: `a::b` is an address too, but nobody's."""
    if len(word) < _ADDRESS_LEAST or not any(letter.isdigit() for letter in word):
        return False
    try:
        return not ip_address(word).is_unspecified
    except ValueError:
        return False


def _national(text: str, numbers: tuple[tuple[Pattern, Callable[[str], bool]], ...]) -> Iterator[Place]:
    for pattern, valid in numbers:
        for place in pattern.places(text):
            if valid(text[place.start : place.end]):
                yield place


def _touches_digit(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start].isdigit() or text[end : end + 1].isdigit()


def _touches(text: str, start: int, end: int) -> bool:
    """Say whether the place is a part of something longer, such as a version of five numbers."""
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    joined = (before[-1:], before if before.endswith(".") else "", after[:1], after if after.startswith(".") else "")
    return any(letter.isalnum() or letter == ":" for part in joined for letter in part)
