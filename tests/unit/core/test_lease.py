from datetime import timedelta

import pytest
from msgspec.structs import replace

from llmgw.core import lease
from llmgw.core.lease import (
    CallFailed,
    Candidate,
    LeaseState,
    Numbers,
    Read,
    Release,
    Renew,
    RowRead,
    Stop,
    Take,
    Wait,
    Woke,
    Written,
    holds_on,
)
from llmgw.schema.lease import Fence, LeaseRow, LeaseStatus, Standing
from llmgw.testing.clock import FakeClock

ME = Candidate(holder="me", name="control-1", address="10.0.0.1:8800")
NUMBERS = Numbers()
OTHER = LeaseRow(
    holder="other",
    epoch=7,
    beat=40,
    released=False,
    name="control-2",
    address="10.0.0.2:8800",
    renewed_at=FakeClock().now(),
)


class Process:
    """One control plane's lease, with answers told by the test. Time starts at 0."""

    def __init__(self):
        self.now = 0.0
        self.state = LeaseState()
        self._wall = FakeClock().now()

    @property
    def doing(self):
        return self.state.doing

    @property
    def standing(self):
        return lease.status(self.state, NUMBERS, self.now).standing

    @property
    def fence(self):
        return lease.fence(self.state, NUMBERS, self.now)

    def leads(self):
        return lease.is_valid(self.state, NUMBERS, self.now)

    def wakes(self, *, at=None):
        assert isinstance(self.doing, Wait)
        self.now = max(self.now, self.doing.until if at is None else at)
        return self._step(Woke(at=self.now, wall=self.wall()))

    def reads(self, row, *, takes_s=0.0, dead=False):
        assert isinstance(self.doing, Read)
        self.now += takes_s
        return self._step(RowRead(row=row, at=self.now, wall=self.wall(), old_holder_dead=dead))

    def written(self, *, ok, takes_s=0.0):
        assert isinstance(self.doing, Take | Renew | Release)
        sent_at = self.now
        self.now += takes_s
        return self._step(Written(ok=ok, sent_at=sent_at, at=self.now, wall=self.wall()))

    def fails(self, *, takes_s=1.0):
        sent_at = self.now
        self.now += takes_s
        return self._step(CallFailed(sent_at=sent_at, at=self.now, wall=self.wall()))

    def wall(self):
        return self._wall + timedelta(seconds=self.now)

    def _step(self, seen):
        self.state = lease.step(self.state, seen, me=ME, numbers=NUMBERS)
        return self.state.doing


def leading():
    """A process that took a free lease at 0 s."""
    process = Process()
    process.wakes()
    process.reads(None)
    process.written(ok=True)
    return process


def standing_by(row=OTHER):
    """A process that saw another one lead at 0 s."""
    process = Process()
    process.wakes()
    process.reads(row)
    return process


def silent(process, row, *, until):
    """Let `process` poll until `until`, the row always the same; give the time at which it does something else."""
    while process.now < until:
        if not isinstance(process.wakes(), Read):
            break
        if not isinstance(process.reads(row), Wait):
            break
    return process.now


def test_a_lease_nobody_ever_held_is_taken_at_once_with_epoch_1():
    process = Process()
    assert isinstance(process.wakes(), Read)
    take = process.reads(None)
    assert take == Take(
        seen=None,
        new=LeaseRow(
            holder="me",
            epoch=1,
            beat=1,
            released=False,
            name="control-1",
            address="10.0.0.1:8800",
            renewed_at=process.wall(),
        ),
    )
    assert not process.leads()
    process.written(ok=True)
    assert process.leads()
    assert process.fence == Fence(epoch=1, holder="me")


def test_a_leader_renews_1_5_s_after_the_last_renewal_was_sent():
    process = leading()
    assert isinstance(process.wakes(), Renew)
    assert process.now == 1.5
    process.written(ok=True, takes_s=0.4)
    assert isinstance(process.wakes(), Renew)
    assert process.now == 3.0


def test_a_leader_is_valid_for_the_ttl_less_the_margin_from_when_the_renewal_was_sent():
    process = leading()
    process.wakes()
    process.written(ok=True, takes_s=0.9)  # sent at 1.5
    process.now = 6.49
    assert process.leads()
    process.now = 6.5
    assert not process.leads()
    assert process.fence is None
    assert process.standing == Standing.LAPSED


def test_an_answer_that_comes_after_its_own_validity_makes_nobody_leader():
    process = Process()
    process.wakes()
    process.reads(None)
    process.written(ok=True, takes_s=5.0)
    assert not process.leads()


def test_a_leader_that_cannot_renew_keeps_trying_and_wakes_at_the_moment_it_lapses():
    process = leading()
    moments = []
    process.wakes()
    while process.now < 8:
        process.fails(takes_s=0.1)
        while isinstance(process.doing, Wait):
            process.wakes()
            moments.append(round(process.now, 3))
    assert 5.0 in moments
    assert moments[:3] == [2.0, 2.5, 3.0], "retries come each 0.5 s"
    assert process.standing == Standing.LAPSED


def test_a_call_that_took_its_whole_deadline_is_retried_at_once():
    process = leading()
    process.wakes()
    assert isinstance(process.fails(takes_s=1.0), Renew)


def test_a_late_renewal_restores_a_lapsed_leader_with_the_same_epoch():
    process = leading()
    process.wakes()
    for _ in range(20):
        process.fails()
        assert isinstance(process.doing, Renew), "it goes on asking"
    assert process.standing == Standing.LAPSED
    process.written(ok=True)
    assert process.leads()
    assert process.fence == Fence(epoch=1, holder="me")


def test_no_two_attempts_to_renew_share_a_beat():
    process = leading()
    process.wakes()
    beats = [process.doing.row.beat]
    for _ in range(3):
        process.fails()
        beats.append(process.doing.row.beat)
    assert beats == [2, 3, 4, 5]


def test_a_leader_whose_renewal_is_refused_lets_go_at_once_and_looks_who_leads():
    process = leading()
    process.wakes()
    assert isinstance(process.written(ok=False), Read)
    assert not process.leads()
    assert process.standing == Standing.STANDING_BY
    process.reads(OTHER)
    status = lease.status(process.state, NUMBERS, process.now)
    assert (status.leader_name, status.leader_address, status.epoch) == ("control-2", "10.0.0.2:8800", 7)
    assert status.renew_age_s is None


def test_a_standby_polls_each_half_second_with_jitter():
    process = standing_by()
    assert process.doing == Wait(until=0.5, spread_s=0.25)
    process.wakes(at=0.6)
    assert process.reads(OTHER) == Wait(until=1.1, spread_s=0.25)


def test_a_standby_woken_early_does_not_read_before_it_is_time():
    process = standing_by()
    assert process.wakes(at=0.1) == Wait(until=0.5, spread_s=0.25)


def test_a_standby_takes_over_after_6_s_of_silence_with_the_next_epoch_and_beat():
    process = standing_by()
    assert silent(process, OTHER, until=20) == 6.0
    assert isinstance(process.doing, Take)
    assert process.doing.seen == OTHER
    assert (process.doing.new.epoch, process.doing.new.beat) == (8, 41)
    process.written(ok=True)
    assert process.leads()


def test_silence_counts_from_the_answer_not_from_the_question():
    process = Process()
    process.wakes()
    process.reads(OTHER, takes_s=0.9)
    assert silent(process, OTHER, until=20) == pytest.approx(6.9)


@pytest.mark.parametrize(
    "changed",
    [replace(OTHER, beat=41), replace(OTHER, epoch=8), replace(OTHER, holder="third")],
    ids=["beat", "epoch", "holder"],
)
def test_any_change_of_the_row_starts_the_silence_anew(changed):
    process = standing_by()
    silent(process, OTHER, until=5.0)
    process.wakes()
    process.reads(changed)
    changed_at = process.now
    assert silent(process, changed, until=30) == changed_at + 6.0


def test_a_store_that_comes_back_starts_the_silence_anew_so_that_the_leader_has_first_go():
    process = standing_by()
    silent(process, OTHER, until=5.5)
    process.wakes()
    process.fails()
    while not isinstance(process.doing, Read):
        process.wakes()
    assert isinstance(process.reads(OTHER), Wait)
    back_at = process.now
    assert silent(process, OTHER, until=30) == back_at + 6.0


def test_a_released_row_is_taken_at_once_with_the_next_epoch():
    process = standing_by(replace(OTHER, released=True))
    assert isinstance(process.doing, Take)
    assert process.doing.new.epoch == 8
    assert not process.doing.new.released


def test_a_holder_proven_dead_is_followed_at_once_with_the_next_epoch():
    process = Process()
    process.wakes()
    take = process.reads(OTHER, dead=True)
    assert isinstance(take, Take)
    assert take.new.epoch == 8


def test_a_take_that_another_one_won_leads_back_to_standing_by():
    process = standing_by(replace(OTHER, released=True))
    assert process.written(ok=False) == Wait(until=0.5, spread_s=0.25)
    assert not process.leads()
    process.wakes()
    assert isinstance(process.reads(replace(OTHER, holder="third", epoch=8)), Wait)


def test_a_take_of_unknown_outcome_makes_nobody_leader():
    process = standing_by(replace(OTHER, released=True))
    process.fails()
    assert not process.leads()
    assert process.standing == Standing.STANDING_BY


def test_a_take_that_took_effect_unnoticed_is_found_and_renewed():
    process = standing_by(replace(OTHER, released=True))
    landed = process.doing.new
    process.fails()
    renewal = process.reads(landed)
    assert isinstance(renewal, Renew)
    assert (renewal.row.epoch, renewal.row.beat) == (landed.epoch, landed.beat + 1)
    process.written(ok=True)
    assert process.fence == Fence(epoch=8, holder="me")


def test_a_row_that_went_back_in_a_failover_does_not_hand_out_an_epoch_twice():
    process = standing_by()
    process.wakes()
    back = replace(OTHER, epoch=6, beat=39, holder="before")
    process.reads(back)
    silent(process, back, until=30)
    assert process.doing.new.epoch == 8, "epoch 7 was seen with another holder"


def test_an_epoch_asked_for_is_taken_by_compare_and_set_on_our_own_row():
    process = leading()
    own = process.state.row
    process.state = lease.epoch_at_least(process.state, 12)
    take = process.wakes(at=0.2)
    assert isinstance(take, Take)
    assert take.seen == own
    assert (take.new.epoch, take.new.beat, take.new.holder) == (12, 2, "me")
    assert process.leads(), "it stays the leader meanwhile"
    assert process.fence == Fence(epoch=1, holder="me")
    process.written(ok=True)
    assert process.fence == Fence(epoch=12, holder="me")


def test_an_epoch_below_ours_changes_nothing():
    process = leading()
    process.state = lease.epoch_at_least(process.state, 1)
    assert isinstance(process.wakes(at=0.2), Renew)
    process.written(ok=True)
    assert process.fence == Fence(epoch=1, holder="me")


def test_an_epoch_asked_for_during_a_renewal_is_taken_right_after_it():
    process = leading()
    process.wakes()
    process.state = lease.epoch_at_least(process.state, 12)
    process.written(ok=True)
    process.wakes() if isinstance(process.doing, Wait) else None
    assert isinstance(process.doing, Take)
    assert process.now == 1.5


def test_an_epoch_asked_for_after_a_failed_renewal_reads_first_because_the_beat_is_uncertain():
    process = leading()
    process.wakes()
    lost_in_time = process.doing.row
    process.fails()
    process.state = lease.epoch_at_least(process.state, 12)
    process.fails()
    assert isinstance(process.doing, Read)
    take = process.reads(lost_in_time)
    assert isinstance(take, Take)
    assert take.seen == lost_in_time
    process.written(ok=True)
    assert process.fence == Fence(epoch=12, holder="me")


def test_a_lapsed_leader_asked_for_an_epoch_stands_by_when_it_finds_another_one_leading():
    process = leading()
    process.wakes()
    for _ in range(6):
        process.fails()
    process.state = lease.epoch_at_least(process.state, 12)
    process.fails()
    assert isinstance(process.doing, Read)
    assert isinstance(process.reads(OTHER), Wait)
    assert process.standing == Standing.STANDING_BY


def test_a_standby_remembers_an_epoch_asked_for():
    process = standing_by(replace(OTHER, released=True))
    process.written(ok=False)
    process.state = lease.epoch_at_least(process.state, 20)
    process.wakes()
    assert process.reads(replace(OTHER, released=True)).new.epoch == 20


def test_a_leader_that_stops_is_no_leader_at_once_then_releases_then_ends():
    process = leading()
    process.state = lease.stop(process.state)
    assert not process.leads()
    assert process.fence is None
    assert process.standing == Standing.STOPPED
    assert process.wakes(at=0.1) == Release(holder="me", epoch=1)
    assert process.written(ok=True) == Stop()


def test_a_lapsed_leader_that_stops_still_releases():
    process = leading()
    process.wakes()
    for _ in range(6):
        process.fails()
    process.state = lease.stop(process.state)
    assert process.fails() == Release(holder="me", epoch=1)


def test_a_release_that_fails_is_not_repeated():
    process = leading()
    process.state = lease.stop(process.state)
    process.wakes(at=0.1)
    assert process.fails() == Stop()


def test_a_take_that_succeeds_while_stopping_is_released():
    process = standing_by(replace(OTHER, released=True))
    process.state = lease.stop(process.state)
    assert process.written(ok=True) == Release(holder="me", epoch=8)
    assert not process.leads()


def test_a_standby_that_stops_leaves_the_row_alone():
    process = standing_by()
    process.state = lease.stop(process.state)
    assert process.wakes(at=0.1) == Stop()


def test_status_before_the_first_answer_knows_nothing():
    status = lease.status(LeaseState(), NUMBERS, 0.0)
    assert status.standing == Standing.STANDING_BY
    assert (status.epoch, status.holder, status.leader_name, status.renew_age_s) == (None, None, None, None)


def test_status_of_a_leader_tells_the_age_of_its_last_renewal():
    process = leading()
    process.now = 1.25
    status = lease.status(process.state, NUMBERS, process.now)
    assert (status.epoch, status.holder, status.leader_name, status.renew_age_s) == (1, "me", "control-1", 1.25)


def test_status_after_a_release_names_no_leader_but_the_epoch():
    process = standing_by(replace(OTHER, released=True))
    status = lease.status(process.state, NUMBERS, process.now)
    assert (status.epoch, status.holder, status.leader_name) == (7, None, None)


def test_stepping_down_ends_leading_at_once_and_releases_the_row():
    process = leading()
    process.state = lease.step_down(process.state, process.now + 30.0)
    assert not process.leads()
    assert process.standing == Standing.STANDING_BY
    assert lease.status(process.state, NUMBERS, process.now).leader_name is None
    assert process.wakes(at=0.1) == Release(holder="me", epoch=1)
    assert isinstance(process.written(ok=True), Wait)
    assert lease.status(process.state, NUMBERS, process.now).leader_name is None


def test_whoever_stepped_down_leaves_the_lease_to_others_until_its_time_is_over():
    process = leading()
    process.state = lease.step_down(process.state, 30.0)
    process.wakes(at=0.1)
    process.written(ok=True)
    released = replace(process.state.row, released=True)
    assert silent(process, released, until=60) == pytest.approx(30.0, abs=1.0)
    assert isinstance(process.doing, Take)
    assert process.doing.new.epoch == 2


def test_a_release_that_failed_is_tried_again_and_nothing_is_valid_meanwhile():
    process = leading()
    process.state = lease.step_down(process.state, 30.0)
    process.wakes(at=0.1)
    process.fails(takes_s=0.1)
    assert not process.leads()
    assert isinstance(process.wakes(), Release)
    process.written(ok=True)
    assert not process.leads()


def test_each_time_it_begins_to_lead_is_a_term_of_its_own_and_a_lapse_ends_none():
    process = leading()
    terms = [lease.status(process.state, NUMBERS, process.now).term]
    process.wakes()
    for _ in range(8):
        process.fails()
    status = lease.status(process.state, NUMBERS, process.now)
    assert status.standing is Standing.LAPSED
    assert status.lapsed_s == pytest.approx(process.now - 5.0)
    process.written(ok=True)
    terms.append(lease.status(process.state, NUMBERS, process.now).term)
    process.wakes()
    process.written(ok=False)
    process.reads(replace(OTHER, released=True))
    process.written(ok=True)
    terms.append(lease.status(process.state, NUMBERS, process.now).term)
    assert terms == [1, 1, 2]


@pytest.mark.parametrize(
    ("standing", "lapsed_s", "holds"),
    [
        (Standing.LEADING, None, True),
        (Standing.LAPSED, 59.9, True),
        (Standing.LAPSED, 60.0, False),
        (Standing.STANDING_BY, None, False),
        (Standing.STOPPED, None, False),
    ],
)
def test_who_lapsed_a_short_while_ago_keeps_agents_and_address(standing, lapsed_s, holds):
    assert holds_on(LeaseStatus(standing=standing, lapsed_s=lapsed_s)) is holds
