#!/bin/sh
# Runs pytest; what failed is run once more, one test at a time: real processes on a busy machine miss a deadline now
# and then, and a test that fails twice is broken. What needed the second run is printed, so that it is not forgotten.
# Usage: run_tests.sh PYTEST_ARGUMENTS
set -u
pytest=.venv/bin/pytest
$pytest "$@"
status=$?
[ $status -eq 1 ] || exit $status
printf '%s\n' '== these failed beside others; once more, alone:'
exec $pytest -p no:randomly --last-failed --last-failed-no-failures none "$@" -n 0
