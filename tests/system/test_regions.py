# SPDX-License-Identifier: MIT
"""Two regions, each with a relay and a daemon, on one Postgres, as plain processes: every way between
them is cut or freezes, and every process is killed, under load. The same in containers, from the
example that is shipped, is tests/containers."""
import json

import pytest

from lib import http
from lib.link import Link
from lib.sender import Load, paced
from lib.store import Comparison, PgStore
from lib.telemetry import endless, native_request
from lib.wait import wait_until

PER_SECOND = 80  # from each region
PATIENCE = "timeout=2s connect-timeout=1s"  # of a relay with a daemon: short, as is the test


class Regions:
    """Relay and daemon A and B; each relay has its own region's daemon first. ways maps (from, to) to
    the Link between them."""

    def __init__(self, site, database):
        self.database, self.server = database, database.server
        self.ways = {(name, "postgres"): Link(self.server.port) for name in "ab"}
        self.daemons = {name: site.daemon(name=f"daemon-{name}", pass_interval="1s", start=False,
                                          env={"MCPD_NAME": f"daemon-{name}"},
                                          store=database.url_at(self.ways[name, "postgres"].port))
                        for name in "ab"}
        self.ways |= {(relay, daemon): Link(self.daemons[daemon].port)
                      for relay in "AB" for daemon in "ab"}
        self.relays = {}
        for relay, order in (("A", "ab"), ("B", "ba")):
            upstreams = [f"http://127.0.0.1:{self.ways[relay, name].port} name=daemon-{name} {PATIENCE}"
                         for name in order]
            self.relays[relay] = site.relay(name=f"relay-{relay}", upstream=upstreams, start=False)

    def start(self):
        for process in (*self.daemons.values(), *self.relays.values()):
            process.start()
        for daemon in self.daemons.values():
            daemon.wait_ready(60)
        return self

    def close(self):
        for way in self.ways.values():
            way.close()

    def delivered(self, relay, daemon):
        return sum(value for series, value in self.relays[relay].metrics().items()
                   if series.startswith("mcpd_relay_delivered_total{")
                   and f'upstream="daemon-{daemon}"' in series)

    def wait_delivered(self, relay, daemon, more=30, seconds=60):
        aim = self.delivered(relay, daemon) + more
        wait_until(lambda: self.delivered(relay, daemon) >= aim, seconds,
                   lambda: f"{more} more from relay {relay} to daemon {daemon}", every=0.05)

    def wait_not_ready(self, daemon, seconds=30):
        process = self.daemons[daemon]
        wait_until(lambda: (process.readyz() or (0,))[0] == 503, seconds,
                   lambda: f"{process.name} not ready, says {process.readyz()}", every=0.05)

    def roles(self, daemon):
        reply = http.get(self.daemons[daemon].port, "/v1/replicas")
        assert reply.status == 200, reply
        return {row["id"]: row["role"] for row in json.loads(reply.body)["replicas"]}


@pytest.fixture(name="regions")
def regions_(site, postgres):
    regions = Regions(site, postgres)
    yield regions.start()
    if regions.server.is_alive():
        regions.server.resume()
    regions.close()


def between_relay_and_daemon(regions):
    for fail in (Link.cut, Link.freeze):
        fail(regions.ways["A", "a"])
        regions.wait_delivered("A", "b")
        regions.ways["A", "a"].mend()
        regions.wait_delivered("A", "a")


def between_daemon_and_postgres(regions):
    for fail in (Link.cut, Link.freeze):
        fail(regions.ways["a", "postgres"])
        regions.wait_not_ready("a")
        regions.wait_delivered("A", "b")
        regions.wait_delivered("B", "b")
        regions.ways["a", "postgres"].mend()
        regions.daemons["a"].wait_ready(60)
        regions.wait_delivered("A", "a")


def a_relay_alone(regions):
    for daemon in "ab":
        regions.ways["A", daemon].cut()
    regions.relays["A"].wait_metric("mcpd_relay_spool_entries", 50, 60)
    regions.wait_delivered("B", "b")
    for daemon in "ab":
        regions.ways["A", daemon].mend()
    regions.wait_delivered("A", "a")


def killed_processes(regions):
    for process in (regions.daemons["b"], regions.relays["A"], regions.daemons["a"]):
        process.kill9()
        regions.wait_delivered("B", "a" if process is regions.daemons["b"] else "b")
        process.start()
        if process in regions.daemons.values():
            process.wait_ready(60)
    regions.wait_delivered("A", "a")
    regions.wait_delivered("B", "b")


def gone_postgres(regions):
    regions.server.kill9()
    for daemon in "ab":
        regions.wait_not_ready(daemon)
    taken = regions.relays["A"].metric("mcpd_relay_accepted_total")
    regions.relays["A"].wait_metric("mcpd_relay_accepted_total", taken + 50, 30)
    regions.server.start()
    for daemon in regions.daemons.values():
        daemon.wait_ready(60)
    regions.wait_delivered("A", "a")


def rolling_upgrade(regions):
    """Each replica in turn; then the tables are newer than the programs that run."""
    for name, other in ("ab", "ba"):
        assert regions.daemons[name].stop() == 0
        regions.wait_delivered("A", other)
        regions.daemons[name].start().wait_ready(60)
    regions.database.execute("update schema_version set version = version + 1")
    for relay, daemon in ("Aa", "Bb"):
        regions.wait_delivered(relay, daemon)
    regions.daemons["b"].stop()
    assert regions.daemons["b"].spawn().wait() == 1, "an older program started on newer tables"
    assert "this program knows" in regions.daemons["b"].log()
    regions.wait_delivered("B", "a")
    regions.database.execute("update schema_version set version = version - 1")
    regions.daemons["b"].start().wait_ready(60)


def under_load(regions, *doings):
    """Both regions send while it is done; afterwards all of it is stored once."""
    loads = [Load(relay.port, paced(endless(), PER_SECOND), connections=4, retry=None,
                  timeout=20).start() for relay in regions.relays.values()]
    try:
        for do in doings:
            do(regions)
    finally:
        for load in loads:
            load.stop_now()
    sent = [one for load in loads for one in load.stop().sent]
    for relay in regions.relays.values():
        relay.wait_drained(60)
        assert relay.metric("mcpd_relay_dead_letter_total") == 0
    refused = [one for one in sent if not one.is_accepted]
    assert len(sent) > 200 and len(refused) <= 8, refused[:9]  # the last ones, when the load stopped
    Comparison(sent, PgStore(regions.database)).check()


def test_replicas_are_upgraded_one_after_the_other(regions):
    under_load(regions, rolling_upgrade)


def test_two_regions_lose_nothing_and_store_nothing_twice(regions):
    under_load(regions, between_relay_and_daemon, between_daemon_and_postgres, a_relay_alone,
               killed_processes, gone_postgres)
    for daemon in "ab":
        wait_until(lambda d=daemon: sorted(regions.roles(d).values()) == ["follower", "leader"], 30,
                   lambda d=daemon: f"one leader, {regions.roles(d)}")
    assert set(regions.roles("a")) == {"daemon-a", "daemon-b"}


def test_what_is_sent_in_both_regions_is_stored_once(regions):
    for number, key in enumerate(("one", None, "three")):
        request = native_request(number, key)
        for relay in regions.relays.values():
            reply = http.post(relay.port, request.path, request.body, request.content_type,
                              {"Idempotency-Key": key} if key else {})
            assert reply.status == 202
    for relay in regions.relays.values():
        relay.wait_drained()
    assert PgStore(regions.database).count_spans() == 9
    accepted = sum(daemon.metrics()['mcpd_ingest_events_total{door="ingest",result="accepted"}']
                   for daemon in regions.daemons.values())
    duplicate = sum(daemon.metrics()['mcpd_ingest_events_total{door="ingest",result="duplicate"}']
                    for daemon in regions.daemons.values())
    assert (accepted, duplicate) == (9, 9)
