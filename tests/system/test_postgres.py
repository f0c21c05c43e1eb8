# SPDX-License-Identifier: MIT
"""The shared store, a real Postgres: what several daemons send it is there once, behind a pooler, too.
When it fails: test_postgres_failures.py."""
import json
import re
import shutil
import threading
import time

import pytest

from lib import http, tools
from lib.client import counts, event, native, read, send
from lib.postgres import PASSWORD, PgBouncer, PostgresServer, connect
from lib.process import run_once
from lib.sender import Load
from lib.store import Comparison, PgStore
from lib.telemetry import mixed, native_request, new_trace_id, otlp_request
from lib.wait import wait_until

DAY_NS = 86400 * 10**9


def post(daemon, events, **headers):
    return http.post(daemon.port, "/v1/ingest", native(events), "application/json", headers)


# Starting.

def test_an_empty_database_gets_its_tables_and_a_restart_finds_them(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    assert postgres.query("select program, version > 0 from schema_version") == [("mcpd", True)]
    assert daemon.stop() == 0
    daemon.start().wait_ready()


def test_two_daemons_on_an_empty_database_both_come_up(site, postgres):
    daemons = [site.daemon(store=postgres.url, start=False).spawn() for _ in range(4)]
    for daemon in daemons:
        daemon.wait_ready()
    assert postgres.query("select count(*) from schema_version") == [(1,)]
    assert sum("store.migrated" in daemon.log() for daemon in daemons) == 1


def test_tables_of_a_newer_program_are_refused(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    daemon.stop()
    postgres.execute("update schema_version set version = version + 1")
    daemon.spawn()
    assert daemon.wait() == 1
    assert "this program knows" in daemon.log()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_of_another_encoding_is_refused_and_named(site, postgres, encoding):
    """It would refuse, for good, every event with a character that it does not know."""
    postgres.drop()
    admin = connect(postgres.server.port, "postgres")
    with admin.cursor() as cursor:
        cursor.execute(f"create database {postgres.name} encoding '{encoding}' locale 'C' "
                       "template template0")
    admin.close()
    daemon = site.daemon(store=postgres.url, start=False).spawn()
    assert daemon.wait() == 1
    assert f"the encoding of the database is {encoding}" in daemon.log()
    assert postgres.query("select count(*) from pg_tables where schemaname = 'public'") == [(0,)]


def test_a_database_of_another_program_is_left_alone(site, postgres):
    postgres.execute("create table spans (mine text)")
    daemon = site.daemon(store=postgres.url, start=False).spawn()
    assert daemon.wait() == 1
    assert "already exists (42P07)" in daemon.log()
    assert postgres.query("select count(*) from information_schema.tables "
                          "where table_schema = 'public'") == [(1,)]


@pytest.mark.parametrize("url", [
    "mysql://user:hunter2@host/db", "postgres://user:hun/ter2@host/db",
    "postgres://user:hunter2@x@host/db", "postgres://user:hunter2@host:port/db",
    "postgres://user:hunter2@host/db?hunter2=1", "postgres://user:%zzhunter2@host/db"])
def test_a_url_that_is_none_is_refused_without_being_shown(url):
    """A password with characters that should have been escaped ends up anywhere in the URL."""
    done = run_once("daemon", "--listen", "127.0.0.1:0", "--store", url)
    assert done.returncode != 0
    assert "--store: this is no postgres://" in done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr and "ter2" not in done.stdout + done.stderr


def test_a_wrong_password_stops_the_start_and_is_not_shown(site, postgres):
    daemon = site.daemon(store=postgres.url.replace("s3cret", "wrong1"), start=False)
    daemon.log_path.write_text("")
    daemon.spawn()
    assert daemon.wait() == 1
    said = daemon.log().split("\n", 1)[1]  # the first line is the harness's
    assert "password authentication failed" in said and f"127.0.0.1/{postgres.name}" in said
    assert "wrong1" not in said


@pytest.mark.parametrize("more, reason", [
    ("?sslmode=secure", "invalid sslmode value"),
    ("?options=-c%20nosuch%3D1", "unrecognized configuration parameter"),
    ("?options=-c%20search_path%3Dnosuch", "no schema has been selected"),
], ids=["sslmode", "parameter", "schema"])
def test_a_url_that_asks_for_what_there_is_not_stops_the_start(site, postgres, more, reason):
    """No waiting mends it; the password is not shown."""
    daemon = site.daemon(store=postgres.url + more, start=False).spawn()
    assert daemon.wait() == 1
    said = daemon.log().split("\n", 1)[1]
    assert reason in said and PASSWORD not in said and "s3cret" not in said


def test_a_missing_password_stops_the_start(site, postgres, monkeypatch):
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    url = re.sub(":[^:@]*@", "@", postgres.url)
    daemon = site.daemon(store=url, start=False)
    daemon.spawn()
    assert daemon.wait() == 1 and "no password supplied" in daemon.log()


def test_the_password_is_nowhere_to_be_seen(site, postgres):
    daemon = site.daemon(store=postgres.url, log_level="debug").wait_ready()
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    with open(f"/proc/{daemon.pid}/cmdline", "rb") as cmdline:
        assert b"s3cret" not in cmdline.read()
    assert "s3cret" not in daemon.log().split("\n", 1)[1]
    shown = run_once("config", "--store", postgres.url).stdout
    assert "s3cret" not in shown and PASSWORD not in shown


# Twice is once, across daemons.

def test_sent_to_one_daemon_and_again_to_another_is_a_duplicate(site, postgres):
    one, other = (site.daemon(store=postgres.url) for _ in range(2))
    request = otlp_request(1)
    assert counts(send(one, request)) == (3, 0, 0)
    one.stop()
    one.start()
    assert counts(send(other, request)) == (0, 3, 0)
    assert counts(send(one, request)) == (0, 3, 0)
    assert PgStore(postgres).count_spans() == 3


def test_the_same_requests_to_two_daemons_at_once_are_stored_once(site, postgres):
    daemons = [site.daemon(store=postgres.url) for _ in range(2)]
    requests = list(mixed(150))
    loads = [Load(daemon.port, requests, connections=8, retry=None).start() for daemon in daemons]
    for load in loads:
        load.join()
        assert load.statuses() == {200: 150}
    sent = loads[0].sent + loads[1].sent
    Comparison(sent, PgStore(postgres)).check()
    accepted = sum(counts(one.reply)[0] for one in sent)
    duplicate = sum(counts(one.reply)[1] for one in sent)
    assert accepted == duplicate == sum(len(request.spans) for request in requests)


@pytest.mark.parametrize("size", [20, 200], ids=["few", "many"])
def test_the_same_spans_in_opposite_order_and_other_keys_meet(site, postgres, size):
    """Transactions that have rows in common never stay in each other's way, nor store one twice."""
    daemons = [site.daemon(store=postgres.url) for _ in range(2)]
    spans = [event() for _ in range(10 * size)]
    replies = []

    def work(daemon, number):
        for turn in range(10):
            part = spans[turn * size:turn * size + size]
            replies.append(post(daemon, part if number % 2 else part[::-1]))

    threads = [threading.Thread(target=work, args=(daemons[i % 2], i)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {reply.status for reply in replies} == {200}
    assert sum(counts(reply)[0] for reply in replies) == 10 * size
    assert PgStore(postgres).count_spans() == 10 * size
    assert postgres.query("select count(*) from traces where spans <> 1") == [(0,)]


def test_an_open_span_is_completed_once_by_either_of_two_daemons(site, postgres):
    daemons = [site.daemon(store=postgres.url) for _ in range(2)]
    tokens = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}
    opened = [event(end_ns=None) for _ in range(50)]
    closed = [{**one, "end_ns": one["start_ns"] + 5, "attrs": tokens} for one in opened]
    assert counts(post(daemons[0], opened)) == (50, 0, 0)
    replies = []
    threads = [threading.Thread(target=lambda d=d, order=order: replies.append(post(d, order)))
               for d in daemons for order in (closed, closed[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts(reply)[0] for reply in replies) == 50
    assert sum(counts(reply)[1] for reply in replies) == 150
    assert postgres.query("select count(*), sum(spans), sum(in_tok) from traces") == [(50, 50, 350)]


def test_start_and_end_of_a_span_in_one_batch(site, postgres):
    daemon = site.daemon(store=postgres.url)
    opened = event(end_ns=None)
    closed = {**opened, "end_ns": opened["start_ns"] + 5}
    assert counts(post(daemon, [opened, closed, closed])) == (2, 1, 0)
    assert postgres.query("select end_ns - start_ns from spans") == [(5,)]
    assert postgres.query("select spans from traces") == [(1,)]


def test_a_key_past_its_time_is_taken_over(site, postgres):
    daemon = site.daemon(store=postgres.url)
    request = native_request(1, key="again")
    assert counts(send(daemon, request)) == (3, 0, 0)
    postgres.execute("update idem set expires_at = 1")
    later = native_request(2, key="again")
    assert counts(send(daemon, later)) == (3, 0, 0)
    assert counts(send(daemon, later)) == (0, 3, 0)


def test_keys_and_rejects_past_their_time_are_swept(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    bad = {"type": "score", "name": "x"}
    assert counts(post(daemon, [event(), bad])) == (1, 0, 1)
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    postgres.execute("update idem set expires_at = 1 where rejected = 1")
    postgres.execute("update rejects set expires_at = 1")
    wait_until(lambda: postgres.query("select (select count(*) from idem), "
                                      "(select count(*) from rejects)") == [(1, 0)], 60, "swept")


def test_tables_that_somebody_removed_are_made_again(site, postgres):
    """As when a backup is put back under a daemon that runs."""
    daemon = site.daemon(store=postgres.url).wait_ready()
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    postgres.execute("drop schema public cascade; create schema public")
    for number in range(2, 10):  # more requests than there are connections
        wait_until(lambda n=number: send(daemon, otlp_request(n)).status == 200, 30, "stored")
    daemon.wait_ready()
    assert PgStore(postgres).count_spans() == 8 * 3
    assert len(read(daemon, "/v1/traces")["traces"]) == 8


# Days.

def days_of(postgres, table):
    rows = postgres.query("select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
                          "where i.inhparent = %s::regclass", table)
    return {int(name.rsplit("_", 1)[1]) for name, in rows if not name.endswith("_old")}


def test_days_are_there_a_week_ahead(site, postgres):
    site.daemon(store=postgres.url).wait_ready()
    today = int(time.time()) // 86400
    for table in ("spans", "logs", "metrics"):
        wait_until(lambda t=table: days_of(postgres, t) >= set(range(today, today + 8)), 20,
                   lambda t=table: f"days of {t}: {days_of(postgres, t)}")


def test_spans_of_200_days_in_one_batch_are_taken(site, postgres):
    daemon, now = site.daemon(store=postgres.url).wait_ready(), time.time_ns()
    events = [event(start_ns=now - i * DAY_NS, end_ns=now - i * DAY_NS + 1) for i in range(200)]
    assert counts(post(daemon, events)) == (200, 0, 0)
    assert counts(post(daemon, events[::-1])) == (0, 200, 0)
    assert postgres.query("select count(*), count(distinct day) from spans") == [(200, 200)]


def test_made_up_times_do_not_make_a_partition_each(site, postgres):
    """10,000 days back to 1999: they are stored, and the number of tables stays bounded."""
    daemon, now = site.daemon(store=postgres.url).wait_ready(), time.time_ns()
    events = [event(start_ns=now - i * DAY_NS, end_ns=now - i * DAY_NS + 1) for i in range(10000)]
    assert counts(post(daemon, events)) == (10000, 0, 0)
    assert len(days_of(postgres, "spans")) <= 100


def test_a_day_that_somebody_dropped_is_made_again(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    for day in days_of(postgres, "spans"):
        postgres.execute(f"drop table spans_{day}")
    assert counts(send(daemon, otlp_request(2))) == (3, 0, 0)


# The database finds fault with an event.

@pytest.mark.parametrize("size", [30, 600], ids=["few", "many"])
def test_an_event_that_the_database_refuses_is_set_aside(site, postgres, size):
    """Found by halving: its neighbours in the batch are stored, and so are other requests."""
    daemon = site.daemon(store=postgres.url).wait_ready()
    postgres.execute("alter table spans add constraint no_poison check (name <> 'poison')")
    good = [event() for _ in range(size)]
    bad = [event(name="poison") for _ in range(2)]
    reply = post(daemon, good[:20] + bad[:1] + good[20:] + bad[1:])
    assert reply.status == 200 and counts(reply) == (size, 0, 2)
    errors = json.loads(reply.body)["errors"]
    assert [(e["index"], e["code"]) for e in errors] == [(20, "store_refused"),
                                                         (size + 1, "store_refused")]
    assert postgres.query("select count(*) from spans") == [(size,)]
    assert postgres.query("select sum(spans) from traces") == [(size,)]
    again = post(daemon, good[:20] + bad[:1] + good[20:] + bad[1:])
    assert counts(again) == (0, size, 2)
    other = post(daemon, good[:20] + bad[:1] + good[20:], **{"Idempotency-Key": "another"})
    assert counts(other) == (0, size, 1)


def test_a_request_of_which_all_is_refused_leaves_nothing(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    postgres.execute("alter table spans add constraint no_poison check (name <> 'poison')")
    reply = post(daemon, [event(name="poison") for _ in range(300)])
    assert reply.status == 400 and counts(reply) == (0, 0, 300)
    assert postgres.query("select count(*) from idem") == [(0,)]


def test_a_refused_event_harms_none_beside_it(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    postgres.execute("alter table spans add constraint no_poison check (name <> 'poison')")
    good = Load(daemon.port, mixed(200), connections=8).start()
    statuses = {post(daemon, [event(name="poison")]).status for _ in range(20)}
    good.join()
    assert statuses == {400} and good.statuses() == {200: 200}
    Comparison(good.sent, PgStore(postgres)).check()


def test_an_event_whose_trace_is_refused_is_set_aside(site, postgres):
    """Not the span's own statement fails but that of its trace."""
    daemon = site.daemon(store=postgres.url).wait_ready()
    postgres.execute("alter table traces add constraint no_poison check (session <> 'poison')")
    bad = event(attrs={"gen_ai.conversation.id": "poison"})
    assert counts(post(daemon, [event(), bad, event()])) == (2, 0, 1)
    assert postgres.query("select count(*) from traces") == [(2,)]
    assert postgres.query("select count(*) from spans") == [(2,)]


# What the server is told.

def test_commits_wait_for_the_disk_whatever_the_server_is_set_to(site, postgres):
    postgres.execute(f"alter database {postgres.name} set synchronous_commit = off")
    daemon = site.daemon(store=postgres.url).wait_ready()
    postgres.execute("create table seen (value text)")
    postgres.execute("create function look() returns trigger language plpgsql as $$ begin "
                     "insert into seen values (current_setting('synchronous_commit')); "
                     "return null; end $$")
    postgres.execute("create trigger look after insert on idem execute function look()")
    send(daemon, otlp_request(1))
    assert postgres.query("select distinct value from seen") == [("on",)]


# Encrypted.

def test_over_tls_with_the_servers_name_checked(site):
    """Large batches and answers, whose bytes the encryption cuts into records of its own."""
    if not shutil.which("openssl"):
        pytest.skip("NOT TESTED: no openssl to make a certificate with")
    with PostgresServer(ssl="on") as server:
        database = server.new_database()
        url = f"{database.url}?sslmode=verify-full&sslrootcert={server.data}/server.crt"
        daemon = site.daemon(store=url).wait_ready()
        trace = new_trace_id()
        spans = [event(trace_id=trace, attrs={"text": "x" * 3000}) for _ in range(1500)]
        assert counts(post(daemon, spans)) == (1500, 0, 0)
        assert len(read(daemon, f"/v1/traces/{trace}")["spans"]) == 1500
        load = Load(daemon.port, mixed(100), connections=8).run()
        assert load.statuses() == {200: 100}
        # Only the daemon's sessions: the query's own is one that need not be encrypted.
        assert database.query(
            "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) "
            "where a.application_name = 'mcpd'") == [(True,)]


# Behind a pooler.

@pytest.fixture
def pooler(postgres):
    if not tools.find("pgbouncer"):
        pytest.skip("THERE IS NO PGBOUNCER: `make setup` fetches one")
    with PgBouncer(postgres.server) as the_pooler:
        yield the_pooler


def test_behind_a_pooler_in_transaction_mode(site, postgres, pooler):
    """Two daemons, more connections than the pooler has: stored once, read back, ready."""
    daemons = [site.daemon(store=postgres.url_at(pooler.port)) for _ in range(2)]
    for daemon in daemons:
        daemon.wait_ready()
    requests = list(mixed(150))
    loads = [Load(daemon.port, requests, connections=8, retry=None).start() for daemon in daemons]
    for _ in range(20):
        for daemon in daemons:
            traces = read(daemon, "/v1/traces?limit=5")["traces"]
            for trace in traces[:2]:
                assert read(daemon, f"/v1/traces/{trace['trace_id']}")["spans"]
    for load in loads:
        load.join()
        assert load.statuses() == {200: 150}
    Comparison(loads[0].sent + loads[1].sent, PgStore(postgres)).check()
    for daemon in daemons:
        daemon.wait_ready()


def test_the_pooler_is_restarted_under_load(site, postgres, pooler):
    daemon = site.daemon(store=postgres.url_at(pooler.port)).wait_ready()
    load = Load(daemon.port, mixed(2000), connections=8, retry=None).start()
    wait_until(lambda: len(load.accepted) > 50, 30, "a start")
    pooler.kill9()
    pooler.start()
    load.join()
    assert load.statuses() == {200: 2000}
    Comparison(load.sent, PgStore(postgres)).check()
    daemon.wait_ready()
