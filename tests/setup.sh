#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian 12 packages that building, running and testing need and that are missing.
set -eu
packages="gcc clang make pkg-config protobuf-c-compiler libprotobuf-c-dev libcivetweb-dev libzmq3-dev
 libczmq-dev libmsgpack-dev libcurl4-openssl-dev libsqlite3-dev libjansson-dev zlib1g-dev libzstd-dev
 libssl-dev libcmocka-dev clang-format clang-tidy libclang-rt-14-dev cppcheck curl wrk
 python3 python3-pytest python3-zmq python3-requests python3-msgpack"

# promtool alone, for the test of /metrics: the whole package would start a server.
fetch_promtool()
{
    command -v promtool >/dev/null && return
    [ -x build/tools/usr/bin/promtool ] && return
    echo "setup: fetching promtool from Debian's prometheus package into build/tools"
    mkdir -p build/tools
    (cd build/tools && apt-get download -qq -o APT::Sandbox::User=root prometheus >/dev/null &&
        dpkg -x prometheus_*.deb . && rm -f prometheus_*.deb && find . -type f ! -name promtool -delete) ||
        echo "setup: no promtool; its test will be skipped" >&2
}

cd "$(dirname "$0")/.."
missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null || { echo "setup: needs root; run: apt-get install$missing" >&2; exit 1; }
    fi
    mkdir -p build
    echo "setup: installing from Debian's packages (a few minutes, see build/setup.log):$missing"
    # shellcheck disable=SC2086
    { $as_root apt-get update -q &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
    } >build/setup.log 2>&1 || { tail -20 build/setup.log >&2; exit 1; }
fi
fetch_promtool
