#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian 12 packages that building, running and testing need and that are missing.
# `setup.sh build` installs those of building alone; `setup.sh proxies` also fetches haproxy and nginx,
# for `make interop`; `setup.sh containers` also installs what makes a base image, for `make containers`.
set -eu
building="gcc libc6-dev make pkg-config protobuf-c-compiler libprotobuf-c-dev libcivetweb-dev libzmq3-dev
 libczmq-dev libmsgpack-dev libcurl4-openssl-dev libsqlite3-dev libjansson-dev zlib1g-dev libzstd-dev
 libssl-dev libyaml-dev libpq-dev"
testing="clang libcmocka-dev clang-format clang-tidy libclang-rt-14-dev cppcheck curl wrk
 python3 python3-pytest python3-pytest-xdist python3-zmq python3-requests python3-msgpack python3-yaml python3-jsonschema
 python3-psycopg2 openssl"
packages="$building $testing"
[ "${1:-}" = build ] && packages=$building
[ "${1:-}" = containers ] && command -v docker >/dev/null && packages="$packages debootstrap"

# Programs that only tests use, into build/tools: whole packages would start servers.
# fetch PROGRAM PACKAGE...: the program and the libraries of the packages.
fetch()
{
    program=$1
    shift
    command -v "$program" >/dev/null && return
    [ -n "$(find build/tools -name "$program" -type f 2>/dev/null)" ] && return
    echo "setup: fetching $program from Debian's packages into build/tools"
    mkdir -p build/tools/new
    (cd build/tools/new && apt-get download -qq -o APT::Sandbox::User=root "$@" >/dev/null &&
        for deb in *.deb; do dpkg -x "$deb" .; done &&
        find . \( -type f -o -type l \) ! -name "$program" ! -name '*.so.*' -delete &&
        find . -type d -empty -delete && cp -a usr ..) ||
        echo "setup: no $program; its tests will be skipped" >&2
    rm -rf build/tools/new
}

# A Postgres server, whole as its package has it: it finds its parts from where its program lies.
fetch_postgres()
{
    for folder in "" build/tools; do
        [ -x "$folder/usr/lib/postgresql/15/bin/postgres" ] && return
    done
    echo "setup: fetching a Postgres server from Debian's packages into build/tools"
    mkdir -p build/tools/new
    (cd build/tools/new && apt-get download -qq -o APT::Sandbox::User=root postgresql-15 \
        libxml2 libicu72 libldap-2.5-0 libsasl2-2 liblz4-1 >/dev/null &&
        for deb in *.deb; do dpkg -x "$deb" .; done && rm -rf usr/share/doc usr/share/locale \
        usr/lib/postgresql/15/lib/bitcode && cp -a usr ..) ||
        echo "setup: no Postgres server; its tests will be skipped" >&2
    rm -rf build/tools/new
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
[ "${1:-}" = build ] && exit 0
fetch promtool prometheus
fetch_postgres
fetch pgbouncer pgbouncer libevent-2.1-7 libc-ares2
fetch faketime faketime libfaketime
if [ "${1:-}" = proxies ]; then
    fetch haproxy haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1
    fetch nginx nginx
fi
