#!/bin/sh
# Everything that proves a change, after scripts/check.sh. LLMGW_TEST_FULL=1 adds the tests marked slow.
set -eu
bin=.venv/bin
if [ -n "${LLMGW_TEST_FULL:-}" ]; then slow=; else slow='not slow'; fi
# One process: integration tests start real engines, and two cores are all we count on.
exec $bin/pytest -q -m "$slow" --durations=15 tests
