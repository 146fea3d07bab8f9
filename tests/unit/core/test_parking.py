from datetime import timedelta

import msgspec

from llmgw.core.parking import (
    BackoffPolicy,
    after_early_death,
    after_failure,
    after_failure_on,
    after_success,
    delay,
    for_revision,
    unparked,
)
from llmgw.schema.model import ModelStatus
from llmgw.testing.factories import NOW, make_death

POLICY = BackoffPolicy(base_s=2, max_s=10, park_after=5)
FRESH = ModelStatus(model="demo")


def failed(times: int, **death: object) -> ModelStatus:
    status = FRESH
    for _ in range(times):
        status = after_failure(status, make_death(**death), POLICY, NOW)
    return status


def test_the_pause_doubles_up_to_its_ceiling():
    assert [delay(n, POLICY).total_seconds() for n in (1, 2, 3, 4, 5, 1000)] == [2, 4, 8, 10, 10, 10]
    assert failed(2).retry_at == NOW + timedelta(seconds=4)


def test_the_fifth_failed_start_in_a_row_parks():
    assert failed(4).parked is None
    status = failed(5, cause="unknown architecture")
    assert status.parked is not None
    assert (status.parked.failures, status.parked.reason, status.parked.since) == (5, "unknown architecture", NOW)
    assert status.retry_at is None


def test_one_failure_that_cannot_heal_parks():
    status = failed(1, heals=False, cause="not a GGUF file")
    assert status.parked is not None
    assert status.parked.failures == 1


def test_causes_in_the_environment_never_park_nor_count():
    status = failed(50, counts=False)
    assert (status.parked, status.failures) == (None, 0)
    assert status.retry_at == NOW + timedelta(seconds=2)
    assert failed(1, counts=False, heals=False).parked is None


def test_success_starts_the_count_anew():
    status = after_success(failed(4))
    assert (status.failures, status.retry_at, status.last_failure) == (0, None, None)


def test_an_early_death_counts_and_only_the_first_one_does_not_wait():
    first = after_early_death(FRESH, make_death("it crashed"), POLICY, NOW)
    assert (first.failures, first.retry_at, first.last_failure) == (1, None, "it crashed")
    second = after_early_death(first, make_death("it crashed"), POLICY, NOW)
    assert (second.failures, second.retry_at) == (2, NOW + timedelta(seconds=4))
    assert after_early_death(failed(4), make_death(), POLICY, NOW).parked is not None
    assert after_early_death(FRESH, make_death(heals=False), POLICY, NOW).parked is not None
    assert after_early_death(FRESH, make_death(counts=False), POLICY, NOW).failures == 0


def test_a_parked_model_stays_parked_until_unparked_or_changed():
    parked = failed(5)
    assert after_success(parked).parked == parked.parked
    later = after_failure(parked, make_death("something else"), POLICY, NOW)
    assert (later.parked, later.retry_at, later.last_failure) == (parked.parked, None, "something else")
    free = unparked(parked)
    assert (free.parked, free.failures, free.retry_at) == (None, 0, None)
    assert for_revision(parked, 1) is parked
    assert for_revision(parked, 2) == ModelStatus(model="demo", revision=2)


def test_unparking_keeps_what_is_not_about_starts():
    status = msgspec.structs.replace(failed(5), unplaceable="1 node: full")
    assert unparked(status).unplaceable == "1 node: full"


def test_a_cause_in_the_environment_never_parks_and_is_tried_ever_more_rarely():
    status, pauses = FRESH, []
    for _ in range(6):
        status = after_failure_on(status, "n1", NOW)
        status = after_failure(status, make_death(counts=False, cause="the disk is full"), POLICY, NOW)
        pauses.append((status.retry_at - NOW).total_seconds())
    assert pauses == [2, 4, 8, 10, 10, 10]
    assert (status.parked, status.failures, status.last_failure) == (None, 0, "the disk is full")
