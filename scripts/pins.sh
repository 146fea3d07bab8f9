#!/bin/sh
# Writes requirements/*.txt: every version with its hashes, no index address. Usage: pins.sh UV
set -eu
compile() {
    "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command 'make pins' ${UPGRADE:+--upgrade} "$@"
}
UV=$1
compile pyproject.toml --extra cpu -o requirements/cpu.txt
compile pyproject.toml --extra cpu --extra postgres --extra dev -o requirements/dev.txt
compile requirements/demo.in --no-deps -o requirements/demo.txt
compile requirements/build.in -o requirements/build.txt
compile requirements/uv.in -o requirements/uv.txt
compile requirements/lab.in -o requirements/lab.txt
