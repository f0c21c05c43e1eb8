# SPDX-License-Identifier: MIT
"""Two replicas on one Postgres: what one has taken the other knows, whatever dies in between, and
what is rolled up is the sum of what is stored."""
import json
import threading
import time

import psycopg2
import pytest

from lib import http
from lib.client import counts, event, native, read, send
from lib.postgres import PostgresServer
from lib.sender import Load
from lib.store import Comparison, PgStore
from lib.telemetry import Request, mixed, native_request, otlp_request

DAY_NS = 86400 * 10**9


@pytest.fixture(name="pair")
def a_pair(site, postgres):
    """Two daemons and what they share."""
    daemons = [site.daemon(store=postgres.url) for _ in range(2)]
    for daemon in daemons:
        daemon.wait_ready()
    return (*daemons, PgStore(postgres))


def test_what_one_took_is_a_duplicate_at_the_other_after_its_death(pair):
    """Keys are in the store, not in a process: sent to A, A dies, sent to B and to the new A."""
    first, second, store = pair
    for make in (otlp_request, native_request):
        for key in (None, "key-of-" + make.__name__):
            request = make(1, key)
            assert counts(send(first, request)) == (3, 0, 0)
            first.kill9()
            assert counts(send(second, request)) == (0, 3, 0)
            first.start().wait_ready()
            assert counts(send(first, request)) == (0, 3, 0)
    assert store.count_spans() == 12
    assert {sums[0] for sums in store.traces().values()} == {3}


def test_same_three_times_with_and_without_keys_leaves_the_sums(pair):
    """The rows are what is counted: the identity of a span holds where the key is gone."""
    first, second, store = pair
    requests = list(mixed(20))
    sent = Load(first.port, requests, connections=4).run().sent
    before = store.traces()
    sent += Load(second.port, requests, connections=4).run().sent
    assert store.forget_keys() == 20
    sent += Load(second.port, requests, connections=4).run().sent
    assert {one.status for one in sent} == {200}
    assert store.traces() == before
    Comparison(sent, store).check()


def test_answers_count_the_rows_there_are(pair):
    """accepted is rows that are stored now and were not before; with duplicates and rejected events
    it makes up all that was sent."""
    first, second, store = pair
    old, new = [event() for _ in range(30)], [event() for _ in range(20)]
    bad = [{"type": "span", "trace_id": "zz"}, {"type": "nonsense"}]
    assert counts(http.post(first.port, "/v1/ingest", native(old))) == (30, 0, 0)
    body = native(old[:10] + bad + new + new[:5])
    reply = http.post(second.port, "/v1/ingest", body)
    assert (reply.status, counts(reply)) == (200, (20, 15, 2))
    assert store.count_spans() == 50
    assert sum(sums[0] for sums in store.traces().values()) == 50
    assert counts(http.post(first.port, "/v1/ingest", body)) == (0, 35, 2)
    assert store.count_spans() == 50


def chats(count):
    return [event(attrs={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3})
            for _ in range(count)]


def test_one_known_row_among_many_new_ones_is_the_only_duplicate(pair):
    """Of spans, logs and metrics: rows that are copied in all at once fail together, and are then
    taken one by one."""
    first, second, store = pair
    now, spans = time.time_ns(), chats(400)
    assert counts(http.post(first.port, "/v1/ingest", native(spans[200:201]))) == (1, 0, 0)
    for daemon, part, expected in ((second, spans[:300], (299, 1, 0)),
                                   (first, spans[250:], (100, 50, 0)),
                                   (second, chats(300), (300, 0, 0))):
        assert counts(http.post(daemon.port, "/v1/ingest", native(part))) == expected
    for kind in ({"type": "log", "severity": "warn", "body": "x"},
                 {"type": "metric", "name": "m", "kind": "gauge", "value": 4}):
        body = native([{**kind, "ts_ns": now + number} for number in range(200)],
                      idempotency_key="of-" + kind["type"])
        assert counts(http.post(first.port, "/v1/ingest", body)) == (200, 0, 0)
        store.forget_keys()
        assert counts(http.post(second.port, "/v1/ingest", body)) == (0, 200, 0)
    assert store.count_spans() == 700
    assert sum(sums[1] for sums in store.traces().values()) == 3 * 700
    assert store.query("select (select count(*) from logs), (select count(*) from metrics)") == [
        (200, 200)]


def test_many_spans_that_open_and_close_in_one_batch(pair):
    first, second, store = pair
    closed = chats(150)
    opened = [{**span, "end_ns": None} for span in closed]
    assert counts(http.post(first.port, "/v1/ingest", native(opened + closed))) == (300, 0, 0)
    assert counts(http.post(second.port, "/v1/ingest", native(closed))) == (0, 150, 0)
    assert store.query("select count(*), count(end_ns) from spans") == [(150, 150)]
    assert set(store.traces().values()) == {(1, 3, 0)}


def test_both_make_the_same_new_days_at_once(pair):
    first, second, store = pair
    now, failures = time.time_ns(), []

    def post(daemon, offset):
        for day in range(30):
            start = now - (7 + day) * DAY_NS
            reply = http.post(daemon.port, "/v1/ingest", native(
                [event(start_ns=start + offset + i, end_ns=start + offset + i) for i in range(3)]))
            if reply.status != 200 or counts(reply) != (3, 0, 0):
                failures.append(reply)
    threads = [threading.Thread(target=post, args=(daemon, 100 * number))
               for number, daemon in enumerate((first, second, first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.count_spans() == 4 * 30 * 3


def test_overlapping_requests_in_opposite_orders_neither_hang_nor_fail(pair):
    """The same spans in many requests of different keys, forwards and backwards to both replicas:
    rows are locked in one order, so nothing waits in a circle."""
    first, second, store = pair
    spans = chats(300)

    def requests(order):
        for number in range(40):
            part = spans[number * 5:number * 5 + 100][::order]
            yield Request("/v1/ingest", native(part), "application/json")
    loads = [Load(daemon.port, requests(order), connections=8, retry=20, timeout=60).start()
             for daemon in (first, second) for order in (1, -1)]
    sent = [one for load in loads for one in load.join().sent]
    assert {one.status for one in sent} == {200}
    assert sum(counts(one.reply)[0] for one in sent) == store.count_spans() == 295
    assert sum(sums[1] for sums in store.traces().values()) == 3 * 295


def test_one_reads_what_the_other_stored(pair):
    first, second, _ = pair
    request = native_request(1)
    assert counts(send(first, request)) == (3, 0, 0)
    trace = read(second, "/v1/traces/" + request.spans[0].trace_id)
    assert trace["span_count"] == 3
    assert read(second, "/v1/traces") == read(first, "/v1/traces")


def test_backends_ended_at_random_cost_no_event(pair, postgres):
    """pg_terminate_backend of the daemons' own connections, again and again: some requests are 503,
    and sent again they count once."""
    first, second, store = pair
    requests = list(mixed(3000))
    load = Load([first.port, second.port], requests, connections=12, retry=None, timeout=60).start()
    ended = 0
    while load.is_running:
        try:
            ended += postgres.query(
                "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
                " order by random() limit 3) picked")[0][0]
        except psycopg2.OperationalError:
            pass
        time.sleep(0.05)
    load.join()
    assert ended > 20
    assert load.statuses() == {200: 3000}
    Comparison(load.sent, store).check()
    assert store.query("select sum(accepted + duplicate) from idem") == [(9000,)]


def test_a_server_with_few_connections_is_shared(site, postgres_server):
    """Nine connections for two replicas that would have more: threads that have none leave the work
    to those that do, so both replicas go on; what is 503 all the same is sent again."""
    assert postgres_server.is_alive()  # there is a server to be had
    with PostgresServer(max_connections=9, superuser_reserved_connections=0) as server:
        database = server.new_database()
        daemons = [site.daemon(store=database.url) for _ in range(2)]
        store = PgStore(database)
        load = Load([daemon.port for daemon in daemons], mixed(600), connections=16, retry=None,
                    timeout=60).run()
        assert load.statuses() == {200: 600}
        assert any("too many clients" in daemon.log() for daemon in daemons)
        for daemon in daemons:
            daemon.wait_ready()
        for daemon in daemons:
            assert daemon.stop() == 0
        Comparison(load.sent, store).check()


def test_reads_under_load_are_whole(pair):
    """A trace that is read while more of it is written is one state of it: its sums are those of the
    spans beside them."""
    first, second, store = pair
    spans = chats(2000)
    for number, span in enumerate(spans):
        span["trace_id"] = f"{number % 5 + 1:032x}"
    batches = [Request("/v1/ingest", native(spans[at:at + 20]), "application/json")
               for at in range(0, 2000, 20)]
    load = Load([first.port, second.port], batches, connections=6, retry=None).start()
    seen = 0
    while load.is_running:
        for number in range(1, 6):
            reply = http.get(second.port, f"/v1/traces/{number:032x}")
            if reply.status == 404:
                continue
            assert reply.status == 200, reply
            trace = json.loads(reply.body)
            assert trace["span_count"] == len(trace["spans"])
            assert trace["in_tok"] == 3 * len(trace["spans"])
            seen += 1
    assert seen > 5
    assert load.join().statuses() == {200: 100}
    assert store.count_spans() == 2000
    assert read(first, "/v1/traces")["traces"] == read(second, "/v1/traces")["traces"]
