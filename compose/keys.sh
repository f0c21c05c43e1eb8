#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the files of secrets/ that are missing: keys of senders and readers, and Postgres's password.
# Needs the image (docker build -t mcpd ..); MCPD_IMAGE names another one.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets

key() { docker run --rm --network none "${MCPD_IMAGE:-mcpd}" key new --scope "$1" --project shop; }
# keep NAME: standard input becomes secrets/NAME. The user in a container has another number than you,
# so the files are for everyone to read, in a folder that only you may enter.
keep() { cat >"secrets/$1.new" && chmod 444 "secrets/$1.new" && mv "secrets/$1.new" "secrets/$1"; }

[ -s secrets/sender ] || key in | keep sender
[ -s secrets/admin ] || key ad | keep admin
[ -s secrets/keys ] || cat secrets/sender secrets/admin | keep keys
[ -s secrets/postgres-password ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' | keep postgres-password
[ -s secrets/store ] ||
    printf 'postgres://mcpd:%s@postgres:5432/mcpd\n' "$(cat secrets/postgres-password)" | keep store
echo "secrets/: sender (sends), admin (does all), keys (both, for relay and daemons), store, postgres-password"
