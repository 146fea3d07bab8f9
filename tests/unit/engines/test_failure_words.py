import signal

import pytest

from llmgw.engines.failure_words import by_signal, by_status, decisive, words

TABLE = (
    words(r"no file '(.+)'", "No file {0}", heals=False),
    words(r"out of memory", "Too little memory", counts=False),
)


def test_the_first_line_that_any_entry_knows_decides():
    death = decisive(["hello", "out of memory", "no file 'x'"], TABLE, 1)
    assert death.cause == "Too little memory"
    assert (death.heals, death.counts) == (True, False)
    assert death.log_line == "out of memory"


def test_what_the_line_names_is_in_the_words_even_with_braces_in_it():
    assert decisive(["no file '{0}/a'"], TABLE, 1).cause == "No file {0}/a"


def test_a_log_without_a_known_line_explains_nothing():
    assert decisive(["fine"], TABLE, 1) is None


@pytest.mark.parametrize(
    ("number", "told", "heals"),
    [
        (signal.SIGKILL, "want of memory", True),
        (signal.SIGILL, "instruction this CPU lacks", False),
        (signal.SIGSEGV, "memory fault", True),
        (signal.SIGTERM, "SIGTERM, sent from outside", True),
    ],
)
def test_signals_have_words(number, told, heals):
    death = by_signal(-number)
    assert told in death.cause
    assert death.heals is heals
    assert death.status == -number


def test_a_signal_without_a_name_is_told_by_its_number():
    assert "signal 99" in by_signal(-99).cause


@pytest.mark.parametrize("status", [None, 0, 1])
def test_an_exit_is_no_signal(status):
    assert by_signal(status) is None


@pytest.mark.parametrize(
    ("status", "told"), [(None, "adopted"), (0, "with status 0, though nobody asked"), (3, "with status 3")]
)
def test_an_end_without_a_trace_is_told_by_its_status(status, told):
    death = by_status(status)
    assert told in death.cause
    assert death.status == status
    assert not death.asked
