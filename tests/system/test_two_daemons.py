# SPDX-License-Identifier: MIT
"""Two replicas on one Postgres: what one has taken the other knows, whatever dies in between, and
what is rolled up is the sum of what is stored."""
import threading
import time

import psycopg2
import pytest

from lib import http
from lib.client import counts, event, native, read, send
from lib.sender import Load
from lib.store import Comparison, PgStore
from lib.telemetry import (RESOURCE, Request, mixed, native_request, new_span_id, new_trace_id,
                           otlp_request, pb_span, pb_traces)
from lib.wait import wait_until

PROTOBUF = "application/x-protobuf"
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


def test_same_key_at_once_at_both_is_stored_once(pair):
    first, second, store = pair
    requests = [otlp_request(number, f"at-once-{number}") for number in range(40)]
    loads = [Load(daemon.port, [one for one in requests for _ in range(4)], connections=16,
                  retry=50).start() for daemon in (first, second)]
    sent = [one for load in loads for one in load.join().sent]
    assert {one.status for one in sent} == {200}
    assert sum(counts(one.reply)[0] for one in sent) == 3 * len(requests)
    assert {sum(counts(one.reply)) for one in sent} == {3}
    Comparison(sent, store).check()
    assert store.query("select sum(accepted), count(*) from idem") == [(120, 40)]


def test_request_held_past_its_time_and_resent_to_the_other_counts_once(site, postgres):
    """The sender gives up while a lock holds the commit back; it goes through, and the resend adds
    nothing to the sums."""
    first, second = (site.daemon(store=postgres.url, request_timeout_seconds=1) for _ in range(2))
    store, request = PgStore(postgres), otlp_request(1, "held")
    assert counts(send(first, otlp_request(2))) == (3, 0, 0)  # the tables' partitions are there
    with postgres.connect() as holder:
        holder.autocommit = False
        with holder.cursor() as cursor:
            cursor.execute("lock table traces in exclusive mode")
        reply = send(first, request)
        assert reply.status == 503 and int(reply.headers["retry-after"]) >= 1
        holder.rollback()
    holder.close()
    replies = []

    def is_taken():
        replies.append(send(second, request))
        return replies[-1].status == 200
    wait_until(is_taken, 30, lambda: f"the resend is taken: {replies[-1]}")
    assert sum(counts(replies[-1])) == 3
    assert counts(send(first, request)) == (0, 3, 0)
    assert store.traces()[request.spans[0].trace_id] == (3, 101, 11)
    assert store.count_spans() == 6


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


def test_open_span_is_completed_once_wherever_its_end_arrives(pair):
    first, second, store = pair
    begin = event(end_ns=None, attrs={"gen_ai.operation.name": "chat"})
    end = {**begin, "end_ns": begin["start_ns"] + 5000,
           "attrs": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}}
    for daemon, one, expected in ((first, begin, (1, 0, 0)), (second, end, (1, 0, 0)),
                                  (first, {**end, "name": "again"}, (0, 1, 0))):
        reply = http.post(daemon.port, "/v1/ingest", native([one]))
        assert (reply.status, counts(reply)) == (200, expected)
    assert store.traces() == {begin["trace_id"]: (1, 7, 0)}
    assert store.query("select end_ns - start_ns, name from spans") == [(5000, begin["name"])]


def test_spans_of_200_days_in_one_batch_are_taken(pair):
    """No batch is so spread that it is refused for ever."""
    first, second, store = pair
    now = time.time_ns()
    spans = [pb_span(new_trace_id(), new_span_id(), None, "n", 1, now - day * DAY_NS,
                     now - day * DAY_NS + 1, {}) for day in range(200)]
    body = pb_traces(spans, RESOURCE)
    for daemon, expected in ((first, (200, 0, 0)), (second, (0, 200, 0))):
        reply = http.post(daemon.port, "/v1/traces", body, PROTOBUF)
        assert (reply.status, counts(reply)) == (200, expected)
    assert store.query("select count(distinct day) from spans") == [(200,)]


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
    spans = [event(attrs={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3})
             for _ in range(300)]

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
