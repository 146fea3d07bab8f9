from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from llmgw.core.trust import (
    CERTIFICATE_LIFE,
    KEPT,
    TOKEN_LIFE,
    judge_certificate,
    judge_token,
    outlived,
    renew_at,
    renewal_problem,
)
from llmgw.schema.identity import Enrolment, Identity, JoinToken, Part

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
N1 = Identity(part=Part.NODE, name="n1")
TOKEN = JoinToken(
    id="lj_abcdefgh",
    hash="00",
    part=Part.NODE,
    name="n1",
    created_at=NOW,
    created_by="lt_1",
    expires_at=NOW + TOKEN_LIFE,
)
SPENT = replace(TOKEN, spent_at=NOW)


def test_a_token_lets_in_whom_it_was_made_for():
    assert judge_token(TOKEN, N1, NOW) is None
    assert judge_token(TOKEN, N1, NOW + TOKEN_LIFE - timedelta(seconds=1)) is None


def test_a_token_that_expired_lets_nobody_in():
    refusal = judge_token(TOKEN, N1, NOW + TOKEN_LIFE)
    assert refusal is not None
    assert refusal.reason == "join token lj_abcdefgh expired at 03:19:05 UTC"
    assert not refusal.void


def test_a_token_that_was_used_lets_nobody_in_again():
    refusal = judge_token(SPENT, N1, NOW)
    assert refusal is not None
    assert refusal.reason == "join token lj_abcdefgh was used or made void at 03:04:05 UTC"


@pytest.mark.parametrize(
    "wanted",
    [
        Identity(part=Part.NODE, name="n2"),
        Identity(part=Part.SERVER, name="n1"),
        Identity(part=Part.GATEWAY, name="n1"),
    ],
)
def test_a_token_in_the_wrong_hands_is_void_from_then_on(wanted):
    refusal = judge_token(TOKEN, wanted, NOW)
    assert refusal is not None
    assert refusal.void
    assert refusal.reason == f"join token lj_abcdefgh is for node n1, not for {wanted}; it is void now"


def test_a_token_that_cannot_be_used_any_more_is_never_made_void_by_a_guess():
    wrong = Identity(part=Part.NODE, name="n2")
    for refusal in (judge_token(SPENT, wrong, NOW), judge_token(TOKEN, wrong, NOW + TOKEN_LIFE)):
        assert refusal is not None
        assert not refusal.void


def test_a_secret_that_opens_no_token_lets_nobody_in():
    refusal = judge_token(None, N1, NOW)
    assert refusal is not None
    assert refusal.reason == "there is no such join token"


def test_a_certificate_is_taken_while_its_machine_is_enrolled():
    assert judge_certificate(Enrolment(part=Part.NODE, name="n1", joined_at=NOW), N1, NOW) is None
    refused = judge_certificate(None, N1, NOW)
    assert refused is not None
    assert "not known here" in refused


def test_certificates_of_before_a_machine_joined_anew_are_not_taken():
    later = Enrolment(part=Part.NODE, name="n1", joined_at=NOW + timedelta(hours=1))
    refused = judge_certificate(later, N1, NOW)
    assert refused is not None
    assert "joined anew" in refused


def test_a_certificate_made_in_the_second_of_joining_is_taken_although_dates_in_it_are_whole_and_begin_earlier():
    enrolment = Enrolment(part=Part.NODE, name="n1", joined_at=NOW.replace(microsecond=999_999))
    assert judge_certificate(enrolment, N1, NOW - timedelta(minutes=5)) is None


def test_a_certificate_is_renewed_after_two_thirds_of_its_life():
    assert renew_at(NOW, NOW + CERTIFICATE_LIFE) == NOW + timedelta(days=4, hours=16)


def test_tokens_are_forgotten_a_day_after_they_expired():
    assert not outlived(TOKEN, TOKEN.expires_at + KEPT)
    assert outlived(TOKEN, TOKEN.expires_at + KEPT + timedelta(seconds=1))


def test_a_certificate_that_could_not_be_renewed_for_long_is_told_before_and_after_its_end():
    ends = NOW + timedelta(days=5)
    assert renewal_problem(NOW, ends, NOW + timedelta(days=4, seconds=-1)) is None
    told = "its certificate ends 2026-01-07 03:04 UTC and could not be renewed"
    assert renewal_problem(NOW, ends, NOW + timedelta(days=4)) == told
    assert renewal_problem(NOW, ends, ends) == told.replace("ends", "ended")
