#!/bin/sh
# What the machine itself must bring, told before anything is downloaded. Usage: preflight.sh PYTHON
set -eu
python=$1
fail() { printf 'llmgw: %s\n       %s\n' "$1" "$2" >&2; exit 1; }

command -v "$python" >/dev/null 2>&1 || fail "$python is not installed" 'apt-get install python3, or: make PYTHON=/path/to/python3.11'
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old" 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11'
"$python" -m pip --version >/dev/null 2>&1 || fail 'pip is not installed' 'apt-get install python3-pip'
grep -q -w avx2 /proc/cpuinfo || fail 'this processor has no AVX2, which the embedded llama.cpp needs' \
    'use a machine with AVX2 (any x86-64 server since 2015)'
found=
for folder in /usr/lib/x86_64-linux-gnu /lib/x86_64-linux-gnu /usr/lib64 /lib64 /usr/lib; do
    [ -e "$folder/libgomp.so.1" ] && found=yes
done
[ -n "$found" ] || fail 'the library libgomp1 is missing' 'apt-get install libgomp1'
