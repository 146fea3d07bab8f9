#!/bin/sh
# The quick gate: format, lint, spelling, imports, types, structure and unit tests.
set -eu
bin=.venv/bin
step() { printf '%s\n' "== $*"; "$@"; }
step $bin/ruff format --check --quiet src tests scripts benchmarks
step $bin/ruff check --quiet src tests scripts benchmarks
step $bin/codespell src tests docs scripts benchmarks README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md SECURITY.md
step $bin/lint-imports --no-logo
step $bin/mypy
step sh scripts/run_tests.sh -q -n 2 tests/unit tests/structure
