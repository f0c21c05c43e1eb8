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
    (cd build/tools && apt-get download -q prometheus >/dev/null && dpkg -x prometheus_*.deb . &&
        rm -f prometheus_*.deb && find . -type f ! -name promtool -delete) ||
        echo "setup: no promtool; its test will be skipped" >&2
}

cd "$(dirname "$0")/.."
missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || { fetch_promtool; exit 0; }
echo "setup: installing from Debian's packages:$missing"
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: needs root; run: apt-get install$missing" >&2; exit 1; }
    sudo DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -q && apt-get install -y -q --no-install-recommends $missing"
    fetch_promtool
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing
fetch_promtool
