#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the bench's own programs and runs it: `make bench`, or run.sh B1 B3 ... for some of it.
set -eu
cd "$(dirname "$0")/../.."
out=build/bench
mkdir -p "$out"
for program in bare rival; do
    gcc -O2 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$out/$program" \
        "tests/bench/$program.c" tests/bench/server.c -lcivetweb -pthread
done
exec /usr/bin/python3 tests/bench/bench.py "$@"
