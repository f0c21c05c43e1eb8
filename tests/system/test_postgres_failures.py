# SPDX-License-Identifier: MIT
"""The shared store fails: it is stopped, killed, frozen, full, locked, or the way to it is cut in the
middle of a commit. Nothing that was answered 2xx is lost, nothing is stored twice, and the daemon is
ready again by itself."""
import hashlib
import os
import pathlib
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib import http, tools
from lib.client import counts, event, native, send
from lib.disk import fill
from lib.link import Link
from lib.postgres import PgBouncer, PostgresServer
from lib.sender import Load, paced
from lib.store import Comparison, PgStore
from lib.telemetry import Request, endless, mixed, native_request, otlp_request
from lib.wait import wait_until


@pytest.fixture
def server():
    """A server of the test's own, to be hurt."""
    with PostgresServer() as the_server:
        yield the_server


def is_ready(daemon):
    return (daemon.readyz() or (0,))[0] == 200


def wait_not_ready(daemon, seconds=30):
    wait_until(lambda: daemon.readyz()[0] == 503, seconds, lambda: f"not ready\n{daemon.log()}")


def finish(load, daemon):
    """Ends the load; what was not accepted is sent again until it is, as senders do."""
    load.stop()
    assert load.statuses().keys() <= {200, 503}, load.statuses()
    again = Load(daemon.port, [s.request for s in load.sent if not s.is_accepted], retry=None).run()
    assert again.statuses().keys() <= {200}
    return [sent for sent in load.sent if sent.is_accepted] + again.sent


def finish_and_check(load, daemon, database):
    """Every request was accepted in the end, and is stored once."""
    Comparison(finish(load, daemon), PgStore(database)).check()


# Away.

def test_a_daemon_started_before_its_store_waits_for_it(site, server):
    """Probes are served, ingest is refused with 503, and no restart is needed."""
    database = server.new_database()
    server.stop()
    daemon = site.daemon(store=database.url)
    assert daemon.readyz()[0] == 503 and http.get(daemon.port, "/healthz").status == 200
    reply = send(daemon, otlp_request(1))
    assert reply.status == 503 and 1 <= int(reply.headers["retry-after"]) <= 5
    assert http.get(daemon.port, "/v1/traces").status == 503
    server.start()
    daemon.wait_ready(60)
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)


@pytest.mark.parametrize("how", ["fast", "kill9"])
def test_readers_notice_nothing_of_a_server_that_has_come_back(site, server, how):
    """All connections for reading are of before: none fails to find out."""
    daemon = site.daemon(store=server.new_database().url)
    send(daemon, otlp_request(1))

    def read_at_once(count):
        with ThreadPoolExecutor(count) as pool:
            replies = pool.map(lambda _: http.get(daemon.port, "/v1/traces"), range(count))
            return [reply.status for reply in replies]
    wait_until(lambda: read_at_once(16) == [200] * 16, what="readers on all connections")
    if how == "kill9":
        server.kill9()
    else:
        server.stop(how)
    server.start()
    daemon.wait_ready(60)
    assert read_at_once(16) == [200] * 16


@pytest.mark.parametrize("how", ["fast", "immediate", "kill9"])
def test_the_server_ends_and_comes_back_under_load(site, server, how):
    database = server.new_database()
    daemons = [site.daemon(store=database.url).wait_ready() for _ in range(2)]
    loads = [Load(d.port, paced(endless(), 150), connections=6, retry=None).start()
             for d in daemons]
    for _ in range(2):
        before = sum(len(load.accepted) for load in loads)
        wait_until(lambda n=before: sum(len(load.accepted) for load in loads) > n + 60, 60, "load")
        if how == "kill9":
            server.kill9()
        else:
            server.stop(how)
        for daemon in daemons:
            wait_not_ready(daemon)
        server.start()
        for daemon in daemons:
            daemon.wait_ready(60)
    sent = []
    for load, daemon in zip(loads, daemons):
        wait_until(lambda one=load: len(one.accepted) > 150, 60, "load goes on")
        sent += finish(load, daemon)
    Comparison(sent, PgStore(database)).check()


def test_a_frozen_server_is_not_ready_and_keeps_nobody_waiting_for_ever(site, server):
    database = server.new_database()
    daemon = site.daemon(store=database.url, request_timeout_seconds=5).wait_ready()
    load = Load(daemon.port, paced(endless(), 200), connections=8, retry=None).start()
    wait_until(lambda: len(load.accepted) > 50, 60, "load")
    server.pause()
    wait_not_ready(daemon)
    assert http.get(daemon.port, "/healthz").status == 200
    meanwhile = Load(daemon.port, mixed(3), timeout=20).run()
    assert meanwhile.statuses() == {503: 3}
    reply = http.get(daemon.port, "/v1/traces", timeout=20)
    assert reply.status == 503
    assert database.name.encode() not in reply.body and database.name in daemon.log()
    server.resume()
    daemon.wait_ready(60)
    accepted = len(load.accepted)
    wait_until(lambda: len(load.accepted) > accepted + 50, 60, "load goes on")
    load.sent += meanwhile.sent
    finish_and_check(load, daemon, database)


def test_a_daemon_stops_in_time_though_its_store_is_frozen(site, server):
    """Within the grace that supervisors are told to give."""
    daemon = site.daemon(store=server.new_database().url).wait_ready()
    load = Load(daemon.port, paced(endless(), 100), connections=8, retry=None).start()
    wait_until(lambda: len(load.accepted) > 20, 60, "load")
    server.pause()
    wait_not_ready(daemon)
    assert daemon.stop(40) == 0
    load.stop_now()
    server.resume()


def test_a_frozen_way_to_the_server(site, postgres):
    """The network, not the server: both are alive, nothing moves."""
    with Link(postgres.server.port) as link:
        daemon = site.daemon(store=postgres.url_at(link.port), request_timeout_seconds=5)
        daemon.wait_ready()
        load = Load(daemon.port, paced(endless(), 200), connections=8, retry=None).start()
        wait_until(lambda: len(load.accepted) > 50, 60, "load")
        link.freeze()
        wait_not_ready(daemon)
        link.mend()
        daemon.wait_ready(60)
        finish_and_check(load, daemon, postgres)


def test_the_way_is_cut_again_and_again_under_load(site, postgres):
    with Link(postgres.server.port) as link:
        daemon = site.daemon(store=postgres.url_at(link.port)).wait_ready()
        load = Load(daemon.port, paced(endless(), 400), connections=8, retry=None).start()
        for _ in range(12):
            accepted = len(load.accepted)
            wait_until(lambda n=accepted: len(load.accepted) > n + 20, 60, "load")
            link.cut()
            link.mend()
        daemon.wait_ready(60)
        finish_and_check(load, daemon, postgres)


# Cut at the worst moment.

@pytest.mark.parametrize("from_server", [False, True], ids=["before_it_arrives", "before_its_answer"])
def test_cut_during_commit_is_503_and_the_resend_finds_the_truth(site, postgres, from_server):
    with Link(postgres.server.port) as link:
        daemon = site.daemon(store=postgres.url_at(link.port)).wait_ready()
        link.cut_once(b"INSERT INTO spans", b"COMMIT", from_server)
        request = native_request(1, key="cut")
        reply = send(daemon, request)
        assert link.was_cut.is_set()
        assert reply.status == 503 and int(reply.headers["retry-after"]) >= 1
        stored = 3 if from_server else 0
        assert PgStore(postgres).count_spans() == stored
        assert counts(send(daemon, request)) == ((0, 3, 0) if from_server else (3, 0, 0))
        assert PgStore(postgres).count_spans() == 3
        assert postgres.query("select sum(spans) from traces") == [(3,)]
        daemon.wait_ready()


@pytest.mark.parametrize("spans, at", [(3, b"INSERT INTO spans"),
                                       (300, b"COPY spans"), (300, b"PGCOPY")])
def test_cut_before_commit_is_tried_again_and_nobody_notices(site, postgres, spans, at):
    with Link(postgres.server.port) as link:
        daemon = site.daemon(store=postgres.url_at(link.port)).wait_ready()
        link.cut_once(b"INSERT INTO idem", at)
        reply = http.post(daemon.port, "/v1/ingest", native([event() for _ in range(spans)]),
                          "application/json")
        assert counts(reply) == (spans, 0, 0)
        assert link.was_cut.is_set()
        assert postgres.query("select sum(spans) from traces") == [(spans,)]


# Locked.

def take_key(holder, key):
    """In an open transaction, as a daemon would that then hangs."""
    with holder.cursor() as cursor:
        cursor.execute("insert into idem select id, %s, '\\x00', 3, 0, 0, 1::bigint << 40 from projects",
                       [hashlib.sha256(key.encode()).digest()[:16]])


@pytest.fixture
def holder(postgres):
    """A connection that keeps what it took until it commits or rolls back."""
    connection = postgres.connect()
    connection.autocommit = False
    yield connection
    connection.rollback()
    connection.close()


def test_a_request_that_another_daemon_is_writing_is_in_flight(site, postgres, holder):
    """It waits a while, then is told to come back; nobody else waits with it."""
    daemon = site.daemon(store=postgres.url).wait_ready()
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    take_key(holder, "twin")
    waiting = Load(daemon.port, [native_request(1, key="twin")]).start()
    others = Load(daemon.port, mixed(100), connections=8).run()
    assert others.statuses() == {200: 100}
    waiting.join()
    assert max(sent.seconds for sent in others.sent) < waiting.sent[0].seconds
    reply = waiting.sent[0].reply
    assert reply.status == 503 and reply.headers["mcpd-wait"] == "in-flight"
    assert int(reply.headers["retry-after"]) == 1
    assert is_ready(daemon), "another's lock is no failure of the store"
    holder.rollback()
    assert counts(send(daemon, native_request(1, key="twin"))) == (3, 0, 0)


def test_a_request_that_waited_for_its_twin_is_a_duplicate(site, postgres, holder):
    daemon = site.daemon(store=postgres.url).wait_ready()
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    take_key(holder, "twin")
    waiting = Load(daemon.port, [native_request(1, key="twin")]).start()
    wait_until(lambda: postgres.query("select count(*) from pg_locks where not granted") != [(0,)],
               20, "somebody waits")
    holder.commit()
    waiting.join()
    assert counts(waiting.sent[0].reply) == (0, 3, 0)


def test_a_lock_held_past_the_request_timeout_and_the_resend(site, postgres, holder):
    """The sender gives up, the daemon goes on or gives up: the sums are right either way."""
    daemon = site.daemon(store=postgres.url, request_timeout_seconds=2).wait_ready()
    first, second = native_request(1, key="held"), native_request(2, key="free")
    assert counts(send(daemon, otlp_request(9))) == (3, 0, 0)
    with holder.cursor() as cursor:
        cursor.execute("lock table traces in share mode")
    reply = send(daemon, first)
    assert reply.status == 503 and int(reply.headers["retry-after"]) == 1
    holder.rollback()
    statuses = [send(daemon, first).status for _ in range(3)]
    assert 200 in statuses and set(statuses) <= {200, 503}
    assert counts(send(daemon, first)) == (0, 3, 0)
    assert counts(send(daemon, second)) == (3, 0, 0)
    tokens = sum(span.in_tok for one in (first, second) for span in one.spans)
    sums = postgres.query("select sum(t.in_tok) from traces t where t.trace_id = any(%s)",
                          [bytes.fromhex(one.spans[0].trace_id) for one in (first, second)])
    assert int(sums[0][0]) == tokens


def test_a_daemon_cut_off_in_the_middle_does_not_keep_its_rows(site, postgres):
    """One that hangs with a key in its hands: the database ends its session, the other daemon's
    resend is stored."""
    other = site.daemon(store=postgres.url).wait_ready()
    with Link(postgres.server.port) as link:
        hanging = site.daemon(store=postgres.url_at(link.port)).wait_ready()
        link.freeze_once(b"INSERT INTO idem", b"INSERT INTO spans")
        load = Load(hanging.port, [native_request(1, key="mine")]).start()
        assert link.was_cut.wait(20)
        waiting = Load(other.port, load.sent[:1] and [load.sent[0].request], retry=None).run()
        assert counts(waiting.sent[0].reply) == (3, 0, 0)
        load.join()
        assert load.statuses() == {503: 1}
        link.mend()
    assert PgStore(postgres).count_spans() == 3
    assert postgres.query("select sum(spans) from traces") == [(3,)]


def test_much_over_a_slow_way_is_taken(site, postgres):
    """64 MB at 3 MB a second take longer than any one statement may: a group that never fits into
    its time would be sent again for ever."""
    with Link(postgres.server.port) as link:
        daemon = site.daemon(store=postgres.url_at(link.port), request_timeout_seconds=300,
                             max_body_bytes="96MiB").wait_ready()
        assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
        link.delay_s = 0.02
        body = native([event(attrs={"text": "x" * 8000}) for _ in range(8000)])
        reply = http.post(daemon.port, "/v1/ingest", body, timeout=300)
        assert reply.status == 200 and counts(reply) == (8000, 0, 0), (reply, daemon.log())
    assert PgStore(postgres).count_spans() == 8003


def is_copying(database):
    return database.query("select count(*) from pg_stat_activity where datname = %s and state = "
                          "'active' and query like 'COPY%%'", database.name) != [(0,)]


def test_a_daemon_lost_amid_its_rows_holds_its_keys_for_seconds(site, postgres):
    """The server waits for the rest of a COPY for ever, whatever its timeouts: another daemon ends
    that, so that the resend is taken there."""
    with Link(postgres.server.port, delay_s=0.02) as link:
        lost = site.daemon(store=postgres.url_at(link.port), request_timeout_seconds=5).wait_ready()
        other = site.daemon(store=postgres.url).wait_ready()
        body = native([event(attributes={"text": "x" * 9000}) for _ in range(500)])
        request = Request("/v1/ingest", body, "application/json", key="lost")
        load = Load(lost.port, [request], retry=None).start()
        wait_until(lambda: is_copying(postgres), 60, "a COPY", every=0.001)
        link.freeze()
        assert send(other, request).headers.get("mcpd-wait") == "in-flight"
        lost.kill9()
        wait_until(lambda: send(other, request).status == 200, 120, "the resend is taken", every=1)
        load.stop()
    assert PgStore(postgres).count_spans() == 500


# Full.

@pytest.fixture
def small_server():
    """A server whose data lies on a file system of 200 MiB."""
    folder = pathlib.Path(subprocess.run(["mktemp", "-d", "/tmp/mcpd-full-XXXXXX"], text=True,
                                         capture_output=True, check=True).stdout.strip())
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(folder)],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip("NOT TESTED: no right to mount a small file system")
    server = PostgresServer(folder, min_wal_size="32MB", max_wal_size="48MB")
    try:
        yield server.start()
    finally:
        server.close()
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
        folder.rmdir()


def test_a_full_disk_is_503_and_not_ready_until_there_is_room(site, small_server):
    database = small_server.new_database()
    daemon = site.daemon(store=database.url).wait_ready()
    ballast = small_server.folder / "ballast"
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    fill(ballast)
    load = Load(daemon.port, paced(endless(), 300), connections=8, retry=3).start()
    wait_until(lambda: load.statuses()[503] > 20, 120, lambda: f"503s {load.statuses()}")
    wait_not_ready(daemon)
    os.unlink(ballast)
    if not small_server.is_alive():  # it gives up where it cannot even write its log
        small_server.start()
    daemon.wait_ready(60)
    sent = finish(load, daemon)
    assert not Comparison(sent, PgStore(database)).lost
    assert database.query(
        "select count(*) from traces t join (select trace_id, count(*) n, sum(in_tok) i from spans "
        "group by 1) s using (trace_id) where t.spans <> s.n or t.in_tok <> coalesce(s.i, 0)"
    ) == [(0,)], "sums of traces that are not those of their spans"


# One server after another.

def test_behind_a_pooler_the_server_is_killed_under_load(site, server):
    if not tools.find("pgbouncer"):
        pytest.skip("THERE IS NO PGBOUNCER: `make setup` fetches one")
    database = server.new_database()
    with PgBouncer(server) as pooler:
        daemon = site.daemon(store=database.url_at(pooler.port)).wait_ready()
        load = Load(daemon.port, paced(endless(), 200), connections=8, retry=None).start()
        wait_until(lambda: len(load.accepted) > 60, 60, "load")
        server.kill9()
        wait_not_ready(daemon)
        server.start()
        daemon.wait_ready(60)
        accepted = len(load.accepted)
        wait_until(lambda: len(load.accepted) > accepted + 60, 60, "load goes on")
        finish_and_check(load, daemon, database)
