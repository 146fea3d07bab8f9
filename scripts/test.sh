#!/bin/sh
# Everything that proves a change, after scripts/check.sh. LLMGW_TEST_FULL=1 adds the tests marked slow.
set -eu
if [ -n "${LLMGW_TEST_FULL:-}" ]; then slow=; else slow='not slow'; fi
# Two at a time: most of them wait for processes; the tests of one file share theirs and stay together.
exec sh scripts/run_tests.sh -q -m "$slow" -n 2 --dist loadfile --durations=15 tests/property tests/golden tests/simulation \
    tests/contract tests/integration
