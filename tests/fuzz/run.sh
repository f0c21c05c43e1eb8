#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every fuzzer that `make fuzz` has built, for FUZZ_SECONDS (60) each, starting from the bodies
# in tests/data and from what earlier runs found (build/fuzz/corpus). Stops at the first crash and
# names the input: it becomes a case of a unit test.
set -eu
cd "$(dirname "$0")/../.."
for fuzzer in build/fuzz/bin/*_fuzz; do
    name=$(basename "$fuzzer")
    corpus=build/fuzz/corpus/$name
    log=build/fuzz/$name.log
    mkdir -p "$corpus"
    if ! "$fuzzer" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
        -artifact_prefix="build/fuzz/$name-" "$corpus" tests/data/otlp tests/data/native tests/data/where \
        >"$log" 2>&1; then
        tail -50 "$log"
        echo "fuzz: $name failed; the input is named above" >&2
        exit 1
    fi
    echo "fuzz: $name: $(grep '^Done' "$log"), nothing found"
done
