# SPDX-License-Identifier: MIT
"""B8: spans that a daemon decodes and commits, against a plain program that writes the same rows and
has them ready made. The rival begins with rows that a daemon stored, in tables that a daemon made:
what it writes differs in ids and times alone."""
import itertools
import pathlib
import sqlite3
import statistics
import subprocess

from cases import PROGRAMS, Row, sync_disk
from lib import http
from lib.postgres import PostgresServer, is_available
from lib.process import Site
from spans import Pattern, SpanLoad

CONNECTIONS = 64
SIZES = (10, 100, 1000)
IN_TRANSACTION = 8192  # spans; the daemon's own bound
SERVER = {"shared_buffers": "512MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}
PROBE_SECONDS = 2


def store_one(daemon, pattern):
    """The request whose rows the rival begins with."""
    reply = http.post(daemon.port, "/v1/traces", pattern.body, "application/x-protobuf")
    assert reply.status == 200, reply


def run_program(name, *arguments):
    done = subprocess.run([str(PROGRAMS / name), *map(str, arguments)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, (name, done.stderr)
    return float(done.stdout)


class Sides:
    """Turns of the two sides with one size of request; every turn has a fresh store."""

    def __init__(self, folder, options, size):
        self.folder, self.seconds = pathlib.Path(folder), options.seconds
        self.pattern = Pattern(folder, size)
        self.ours, self.rival, self.void = [], [], []
        self.names = itertools.count(1)

    def site(self):
        return Site(self.folder / f"site{next(self.names)}")

    def load(self, daemon, count_stored):
        load = SpanLoad(PROGRAMS / "span_load", self.pattern, daemon.port, CONNECTIONS)
        load.run(1)  # threads started, buffers grown
        self.ours.append(load.run(self.seconds))
        if load.refused or load.broken:
            self.void.append(f"{load.refused} refused, {load.broken} broken")
        if count_stored() != load.accepted * self.pattern.count:
            self.void.append(f"{load.accepted} requests of {self.pattern.count} spans answered 2xx,"
                             f" {count_stored()} spans stored")

    def in_transaction(self, writers):
        """As many requests as wait for the daemon, shared among the writers."""
        return max(1, min(CONNECTIONS // writers, IN_TRANSACTION // self.pattern.count))

    def row(self, store, rounds, least, aim, notes=()):
        spread = ", ".join(f"{a / b:.2f}" for a, b in zip(self.ours, self.rival))
        size = self.pattern.count
        return Row("B8", f"OTLP spans to {store}, {size:,} a request", statistics.median(self.ours),
                   statistics.median(self.rival), least, aim, unit="/s", rounds=rounds,
                   void="; ".join(self.void),
                   notes=[f"{store}, {size:,} spans a request: ratio round by round: {spread}",
                          *notes])


class PgSides(Sides):
    def __init__(self, folder, options, size, server):
        super().__init__(folder, options, size)
        self.server, self.copy = server, []
        self.way = max(self.ways(), key=lambda way: self.rival_rate(way, PROBE_SECONDS))

    def ways(self):
        """What the rival may do; the fastest is what counts."""
        for writers in (2, 4):
            most = self.in_transaction(writers)
            for requests in sorted({most, max(1, min(most, 500 // self.pattern.count))}):
                for name in ("unnest", "values"):
                    yield name, writers, requests

    def begin(self):
        database = self.server.new_database()
        database.query("checkpoint")
        sync_disk()
        return database

    def rival_rate(self, way, seconds):
        name, writers, requests = way
        database = self.begin()
        with self.site() as site:
            store_one(site.daemon(store=database.url), self.pattern)
        before = database.query("select count(*) from spans")[0][0]
        rate = run_program("rival_pg", database.url, name, seconds, writers, requests, 1)
        spans, sums, keys = database.query(
            "select (select count(*) from spans), (select sum(spans) from traces),"
            " (select count(*) from idem)")[0]
        if not before < spans == sums == keys * self.pattern.count:
            self.void.append(f"rival: {spans} spans, {sums} in traces, {keys} keys")
        database.drop()
        return rate * self.pattern.count

    def turn(self):
        self.rival.append(self.rival_rate(self.way, self.seconds))
        self.copy.append(self.rival_rate(("copy", *self.way[1:]), self.seconds))
        database = self.begin()
        with self.site() as site:
            daemon = site.daemon(store=database.url)
            self.load(daemon, lambda: database.query("select count(*) from spans")[0][0])
        database.drop()

    def notes(self):
        name, writers, requests = self.way
        return [f"the same: the rival's fastest way was {name}, {writers} connections, {requests} "
                f"requests in a transaction; COPY, which could not bear a duplicate: "
                f"{statistics.median(self.copy):,.0f}/s"]


class SqliteSides(Sides):
    def turn(self):
        sync_disk()
        with self.site() as site:
            daemon = site.daemon()
            store_one(daemon, self.pattern)
            daemon.stop()
            rate = run_program("rival_sqlite", daemon.data, self.seconds, self.in_transaction(1), 1)
            self.rival.append(rate * self.pattern.count)
        sync_disk()
        with self.site() as site:
            daemon = site.daemon()
            self.load(daemon, lambda: self.count(daemon.data))

    @staticmethod
    def count(path):
        return sqlite3.connect(path).execute("select count(*) from spans").fetchone()[0]


def postgres_rows(folder, options):
    with PostgresServer(folder / "postgres", **SERVER) as server:
        for size in SIZES:
            sides = PgSides(folder, options, size, server)
            for _ in range(options.rounds):
                sides.turn()
            yield sides.row("Postgres", options.rounds, 0.50, 0.80, sides.notes())


def b8(folder, options):
    rows = []
    folder.chmod(0o755)  # the server runs as another user
    if is_available():
        (folder / "postgres").mkdir()
        rows += postgres_rows(folder, options)
    sides = SqliteSides(folder, options, 100)
    for _ in range(options.rounds):
        sides.turn()
    return rows + [sides.row("SQLite", options.rounds, None, None)]
