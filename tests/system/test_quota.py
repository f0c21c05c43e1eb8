# SPDX-License-Identifier: MIT
"""Quotas: within a minute a project gets no more than its ceilings into a daemon; what is refused is
stored nowhere and may come again, and no other project notices; a duplicate costs no events."""
import json
import sqlite3
import threading
import time

import pytest

from lib import http, settings
from lib.settings import key
from lib.store import Store
from lib.telemetry import new_span_id, new_trace_id, pb_span, pb_traces
from lib.wait import wait_until

MINUTE = 60


def batch(count):
    now = time.time_ns()
    events = [{"type": "span", "trace_id": new_trace_id(), "span_id": new_span_id(), "name": "chat m",
               "kind": "client", "start_ns": now, "end_ns": now + 1000} for _ in range(count)]
    return json.dumps({"schema": 1, "events": events}).encode()


def start(site, tmp_path, **quota):
    """A daemon with this quota for the project shop, none for lab."""
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("shop", "in", "shop"),
                                                        key("lab", "in", "lab")],
                          projects={"shop": {"quota": quota}})
    return site.daemon(config=path)


def send(process, body, secret="shop", name=None, path="/v1/ingest",
         content_type="application/json"):
    headers = {"x-mcpd-key": secret, **({"Idempotency-Key": name} if name else {})}
    return http.post(process.port, path, body, content_type, headers)


def error(reply):
    return json.loads(reply.body)["error"]


def refused(daemon, dimension):
    name = f'mcpd_quota_refused_total{{project="shop",dimension="{dimension}"}}'
    return daemon.metrics().get(name, 0)


def counts(reply):
    assert reply.status == 200, reply
    return tuple(int(reply.headers["mcpd-" + name])
                 for name in ("accepted", "duplicate", "rejected"))


def spans(daemon):
    return Store(daemon.data).count_spans()


def test_events_over_the_ceiling_are_refused_all_or_nothing(site, tmp_path):
    daemon = start(site, tmp_path, events=10)
    assert send(daemon, batch(6)).status == 200
    reply = send(daemon, batch(5))
    assert reply.status == 429
    assert 1 <= int(reply.headers["retry-after"]) <= MINUTE + 1
    assert reply.headers["ratelimit-policy"] == '"events";q=10;w=60'
    assert reply.headers["ratelimit"].startswith('"events";r=4;t=')
    assert error(reply)["code"] == "quota" and error(reply)["dimension"] == "events"
    assert spans(daemon) == 6
    assert send(daemon, batch(4)).status == 200
    reply = send(daemon, batch(1))
    assert (reply.status, spans(daemon), refused(daemon, "events")) == (429, 10, 2)
    assert send(daemon, batch(50), "lab").status == 200


def test_a_sender_of_otlp_is_told_in_its_own_form(site, tmp_path):
    daemon = start(site, tmp_path, requests=1)
    now = time.time_ns()
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{
        "traceId": new_trace_id(), "spanId": new_span_id(), "name": "x",
        "startTimeUnixNano": str(now), "endTimeUnixNano": str(now)}]}]}]}).encode()
    assert send(daemon, body, path="/v1/traces").status == 200
    reply = send(daemon, body, path="/v1/traces")
    assert reply.status == 429 and int(reply.headers["retry-after"]) >= 1
    assert "used up its requests" in json.loads(reply.body)["message"]


@pytest.mark.parametrize("dimension", ["requests", "bytes"])
def test_requests_and_bytes_are_charged_on_arrival(site, tmp_path, dimension):
    body = batch(1)
    daemon = start(site, tmp_path, **{dimension: 3 if dimension == "requests" else 3 * len(body)})
    # A duplicate arrives, too, and so does what is then found to be no batch.
    assert [send(daemon, body, name="one").status for _ in range(2)] == [200, 200]
    assert send(daemon, b"x" * len(body)).status == 400
    reply = send(daemon, body, name="one")
    assert (reply.status, error(reply)["dimension"]) == (429, dimension)
    assert refused(daemon, dimension) == 1


def test_a_duplicate_costs_no_events(site, tmp_path):
    daemon = start(site, tmp_path, events=12)
    body = batch(6)
    assert counts(send(daemon, body, name="one")) == (6, 0, 0)
    # Known by the key of the request, or by the events themselves.
    for name in ("one", "one", "another", "third"):
        assert counts(send(daemon, body, name=name)) == (0, 6, 0)
    assert counts(send(daemon, batch(6))) == (6, 0, 0)
    assert send(daemon, batch(1)).status == 429


def test_more_than_the_ceiling_is_refused_for_good(site, tmp_path):
    daemon = start(site, tmp_path, events=10)
    reply = send(daemon, batch(11))
    assert reply.status == 413 and "retry-after" not in reply.headers
    assert {**error(reply), "message": ""} == {"code": "over_ceiling", "dimension": "events",
                                               "limit": 10, "message": ""}
    now = time.time_ns()
    body = pb_traces([pb_span(new_trace_id(), new_span_id(), None, "x", 1, now, now, {})
                      for _ in range(11)], {})
    assert send(daemon, body, path="/v1/traces", content_type="application/x-protobuf").status == 413
    assert spans(daemon) == 0
    assert send(daemon, batch(10)).status == 200


def test_what_the_store_did_not_take_costs_no_events(site, tmp_path):
    daemon = start(site, tmp_path, events=10)
    body = batch(10)
    holder = sqlite3.connect(daemon.data, isolation_level=None)
    holder.execute("begin immediate")
    assert send(daemon, body).status == 503
    holder.execute("rollback")
    daemon.wait_ready()
    assert counts(send(daemon, body)) == (10, 0, 0)


def test_many_senders_at_once_get_exactly_the_ceiling(site, tmp_path):
    daemon = start(site, tmp_path, events=150)
    answers = []

    def load():
        for _ in range(20):
            answers.append(send(daemon, batch(2)).status)
    threads = [threading.Thread(target=load) for _ in range(8)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < MINUTE, "too slow to tell"
    assert (answers.count(200), answers.count(429)) == (75, 85)
    assert spans(daemon) == 150


def test_a_new_ceiling_counts_what_was_used_before(site, tmp_path):
    daemon = start(site, tmp_path, events=10)
    assert send(daemon, batch(10)).status == 200
    loaded = daemon.log().count("settings.loaded")
    settings.write(tmp_path / "mcpd.yaml", keys=[key("shop", "in", "shop")],
                   projects={"shop": {"quota": {"events": 12}}})
    wait_until(lambda: daemon.log().count("settings.loaded") > loaded, 10, daemon.log)
    assert [send(daemon, batch(size)).status for size in (3, 2, 1)] == [429, 200, 429]


def test_each_replica_counts_for_itself(site, postgres, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("shop", "in", "shop")],
                          projects={"shop": {"quota": {"events": 10}}})
    replicas = [site.daemon(config=path, store=postgres.url) for _ in range(2)]
    for daemon in replicas:
        assert counts(send(daemon, batch(10))) == (10, 0, 0)
        assert send(daemon, batch(1)).status == 429
    assert postgres.query("select count(*) from spans")[0][0] == 20


def test_a_relay_waits_for_a_projects_minute_and_holds_up_nobody_else(site, tmp_path):
    daemon = start(site, tmp_path, events=10)
    relay = site.relay(upstream=daemon.url)
    began = time.monotonic()
    for _ in range(3):
        assert send(relay, batch(5)).status == 202
    relay.wait_metric("mcpd_relay_delivered_total", 2)
    wait_until(lambda: refused(daemon, "events") == 1, 20, daemon.log)
    direct = send(daemon, batch(1))
    assert direct.status == 429
    # Others go on, through the same relay, to the same upstream.
    for _ in range(20):
        assert send(relay, batch(5), "lab").status == 202
    relay.wait_metric("mcpd_relay_delivered_total", 22)
    assert time.monotonic() - began < MINUTE, "too slow to tell"
    assert relay.metric("mcpd_relay_cooloffs_total") == 0
    assert spans(daemon) == 10 + 100
    # What can never pass is set aside, and told.
    assert send(relay, batch(11)).status == 202
    relay.wait_metric("mcpd_relay_dead_letter_total", 1)
    # The third is delivered when the minute of the first two is over: not before, and once.
    relay.wait_metric("mcpd_relay_delivered_total", 23, seconds=2 * MINUTE)
    assert time.monotonic() - began > MINUTE - 1
    relay.wait_drained()
    assert spans(daemon) == 10 + 100 + 5
    assert relay.metric("mcpd_relay_dead_letter_total") == 1
