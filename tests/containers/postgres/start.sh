#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the database where there is none yet, then becomes the command.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust \
        --auth-host=scram-sha-256 --no-instructions
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    echo "create database $POSTGRES_DB" | postgres --single postgres
fi
exec "$@"
