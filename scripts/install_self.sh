#!/bin/sh
# Installs llmgw itself, editable, with its build tool from the pinned set. Usage: install_self.sh UV VENV
set -eu
"$1" pip install --quiet --python "$2" --require-hashes -r requirements/build.txt
"$1" pip install --quiet --python "$2" --no-deps --no-build-isolation --editable .
