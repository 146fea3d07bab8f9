import json
from pathlib import Path

import pytest

from llmgw.hardware import group_cpu
from llmgw.hardware.proc import ProcessStat, parse_stat

PAIR = Path(__file__).parents[2] / "fixtures" / "hardware" / "proc" / "group-pair.json"


def process(pid, own, waited=0, *, parent=1, state="R", start=10):
    return ProcessStat(
        pid=pid,
        name="engine",
        state=state,
        parent=parent,
        group=100,
        session=100,
        cpu_ticks=own + waited,
        waited_ticks=waited,
        resident_pages=1,
        start_ticks=start,
    )


def cores(before, after, *, charged=(None, None)):
    first = group_cpu.look(0.0, before, charged[0])
    second = group_cpu.look(10.0, after, charged[1])
    found = group_cpu.cores_busy(first, second)
    return None if found is None else found * 10 * group_cpu.TICKS_PER_S  # in ticks again


def test_a_recorded_pair_agrees_with_what_the_kernel_charged():
    """A leader whose children live at both looks, end in between, begin and end in between, and become zombies."""
    pair = json.loads(PAIR.read_text())
    first, second = pair["first"], pair["second"]
    looks = [group_cpu.look(one["at"], map(parse_stat, one["stats"])) for one in (first, second)]
    charged = (second["charged_s"] - first["charged_s"]) / (second["at"] - first["at"])
    assert group_cpu.cores_busy(*looks) == pytest.approx(charged, rel=0.02)


def test_members_that_live_count_by_what_they_used_meanwhile():
    assert cores([process(100, 50), process(101, 7)], [process(100, 60), process(101, 10)]) == pytest.approx(13)


def test_a_member_that_began_meanwhile_counts_whole():
    assert cores([process(100, 50)], [process(100, 50), process(101, 8, 2, parent=100)]) == pytest.approx(10)


def test_a_child_that_was_waited_for_counts_by_what_was_not_counted_before():
    before = [process(100, 50), process(101, 30, parent=100)]
    assert cores(before, [process(100, 50, waited=36)]) == pytest.approx(6)


def test_a_child_that_nobody_waited_for_takes_nothing_back():
    before = [process(100, 50), process(101, 30, parent=100)]
    assert cores(before, [process(100, 55)]) == pytest.approx(5)


def test_a_zombie_counts_until_it_is_waited_for_and_not_again():
    living = [process(100, 50), process(101, 30, parent=100)]
    zombie = [process(100, 50), process(101, 34, parent=100, state="Z")]
    waited = [process(100, 50, waited=34)]
    assert cores(living, zombie) == pytest.approx(4)
    assert cores(zombie, waited) == pytest.approx(0)


def test_a_pid_that_is_used_again_is_another_process():
    assert cores([process(100, 50), process(101, 30)], [process(100, 50), process(101, 5, start=99)]) == 5


def test_the_control_groups_own_counter_is_believed_first():
    found = cores([process(100, 50)], [process(100, 60)], charged=(4.0, 6.0))
    assert found == pytest.approx(2 * group_cpu.TICKS_PER_S)


def test_a_group_that_was_empty_or_not_seen_before_is_unknown():
    assert cores([], [process(100, 60)]) is None
    assert group_cpu.cores_busy(group_cpu.look(5.0, []), group_cpu.look(5.0, [])) is None
