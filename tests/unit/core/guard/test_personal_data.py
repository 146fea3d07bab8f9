import pytest

from llmgw.core.guard.personal_data import PersonalDataScanner, regions
from llmgw.core.guard.redact import redacted
from llmgw.schema.guard.rule import PersonalDataKind as Kind


def told(text, *kinds, regions=()):
    return redacted(text, PersonalDataScanner(kinds or tuple(Kind), regions).spans(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to bob.o'neil+x@mail.example.co.uk now", "write to [email] now"),
        ("call +49 30 901820, please", "call [phone], please"),
        ("call +49 30 901820 2024-01-01", "call [phone] 2024-01-01"),
        ("IBAN DE89 3704 0044 0532 0130 00 please", "IBAN [iban] please"),
        ("gb29nwbk60161331926819.", "[iban]."),
        ("card 4111 1111 1111 1111", "card [card]"),
        ("from 10.0.0.1 and 2001:db8::1", "from [ip_address] and [ip_address]"),
        ("SSN 536-90-4399", "SSN [national_id]"),
        ("CF RSSMRA85T10A562S", "CF [national_id]"),
        ("DNI 12345678Z, PESEL 44051401359", "DNI [national_id], PESEL [national_id]"),
    ],
)
def test_personal_data_is_found_where_it_stands(text, expected):
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112 fails its check digit",
        "DE89 3704 0044 0532 0130 01 does too",
        "it is 12:30:45, version 1.2.3, 1.2.3.4.5 and 300.1.1.1",
        "in 2024 we sold 1234567 of 20000000",
        "a@b, @name, user@host",
        "0000 0000 0000 0000",
        "std::vector and a::b",
    ],
)
def test_what_only_looks_like_personal_data_is_not(text):
    assert told(text) == text


def test_numbers_without_prefix_count_only_in_chosen_regions():
    assert told("ring (415) 555-2671", Kind.PHONE) == "ring (415) 555-2671"
    assert told("ring (415) 555-2671", Kind.PHONE, regions=("US",)) == "ring [phone]"


def test_only_chosen_kinds_are_found():
    assert told("a@example.org +49 30 901820", Kind.EMAIL) == "[email] +49 30 901820"


def test_regions_are_countries_by_two_letters():
    assert {"DE", "US", "JP"} <= regions()
