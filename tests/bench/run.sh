#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the bench's own programs and runs it: `make bench`, or run.sh B1 B3 ... for some of it.
set -eu
cd "$(dirname "$0")/../.."
out=build/bench
mkdir -p "$out"
compile="gcc -O2 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror"
for program in bare rival; do
    $compile -o "$out/$program" "tests/bench/$program.c" tests/bench/server.c -lcivetweb -pthread
done
rows=tests/bench/span_rows.c
$compile -o "$out/span_load" tests/bench/span_load.c $rows
$compile -o "$out/rival_sqlite" tests/bench/rival_sqlite.c $rows -lsqlite3
# shellcheck disable=SC2046
$compile -o "$out/rival_pg" $(pkg-config --cflags libpq) tests/bench/rival_pg.c $rows \
    $(pkg-config --libs libpq) -pthread
exec /usr/bin/python3 tests/bench/bench.py "$@"
