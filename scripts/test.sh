#!/bin/sh
# Everything that proves a change, after scripts/check.sh. LLMGW_TEST_FULL=1 adds the tests marked slow.
set -eu
folders='tests/property tests/golden tests/simulation tests/contract tests/integration tests/clients tests/console'
# Two at a time: most of them wait for processes; the tests of one file share theirs and stay together.
run='sh scripts/run_tests.sh -q -n 2 --dist loadfile --durations=15'
if [ -z "${LLMGW_TEST_FULL:-}" ]; then
    exec $run -m 'not slow' $folders tests/lab
fi
$run $folders
# The laboratory has the machine to itself: its hosts' timeouts are those of real ones.
exec sh scripts/run_tests.sh -q -s tests/lab
