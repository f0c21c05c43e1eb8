# SPDX-License-Identifier: MIT
"""The daemon: what is sent comes back whole, twice is once, bad input is refused and harms nobody,
and what was answered 2xx is there after any death."""
import gzip
import json
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import threading
import time

import pytest

from lib import http
from lib.client import counts, event, native, read, send
from lib.disk import fill
from lib.process import run_once
from lib.sender import Load
from lib.store import Comparison, Store
from lib.telemetry import (mixed, native_request, new_span_id, new_trace_id, otlp_request, pb_bytes,
                           pb_span, pb_traces, RESOURCE)
from lib.wait import wait_until

SDK = pathlib.Path(__file__).resolve().parents[1] / "data" / "otlp"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
STATUSES = ["unset", "ok", "error"]


# What is sent comes back.

def plain_value(value):
    """An OTLP JSON AnyValue as the daemon gives it back."""
    (kind, content), = value.items()
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [plain_value(one) for one in content["values"]]
    if kind == "kvlistValue":
        return plain_map(content["values"])
    return content


def plain_map(attributes):
    return {one["key"]: plain_value(one["value"]) for one in attributes or []}


def expected_span(span, scope, resource):
    expected = {
        "trace_id": span["traceId"], "span_id": span["spanId"], "name": span["name"],
        "kind": KINDS[span.get("kind", 0)], "start_ns": int(span["startTimeUnixNano"]),
        "end_ns": int(span["endTimeUnixNano"]), "flags": span.get("flags"),
        "status": STATUSES[span["status"].get("code", 0)],
        "attributes": plain_map(span["attributes"]), "resource": plain_map(resource["attributes"]),
        "scope": {"name": scope["name"], "version": scope["version"]},
    }
    if span.get("parentSpanId"):
        expected["parent_id"] = span["parentSpanId"]
    if span["status"].get("message"):
        expected["status_message"] = span["status"]["message"]
    if span.get("events"):
        expected["events"] = [{"ts_ns": int(one["timeUnixNano"]), "name": one["name"],
                               "attributes": plain_map(one["attributes"])}
                              for one in span["events"]]
    if span.get("links"):
        expected["links"] = [{"trace_id": one["traceId"], "span_id": one["spanId"],
                              "flags": one["flags"], "attributes": plain_map(one["attributes"])}
                             for one in span["links"]]
    return expected


def sdk_spans():
    document = json.loads((SDK / "sdk-traces.json").read_text())
    return [expected_span(span, scope["scope"], resource["resource"])
            for resource in document["resourceSpans"] for scope in resource["scopeSpans"]
            for span in scope["spans"]]


SENT_AS = {
    "protobuf": ((SDK / "sdk-traces.pb").read_bytes(), PROTOBUF, ""),
    "json": ((SDK / "sdk-traces.json").read_bytes(), JSON, ""),
    "json, charset": ((SDK / "sdk-traces.json").read_bytes(), JSON + "; charset=utf-8", ""),
    "gzip": (gzip.compress((SDK / "sdk-traces.pb").read_bytes()), PROTOBUF, "gzip"),
    "json, gzip": (gzip.compress((SDK / "sdk-traces.json").read_bytes()), JSON, "GZIP"),
}


@pytest.mark.parametrize("form", SENT_AS)
def test_sdk_traces_come_back_item_by_item(any_site, form):
    body, content_type, encoding = SENT_AS[form]
    daemon = any_site.daemon()
    headers = {"Content-Encoding": encoding} if encoding else {}
    reply = http.post(daemon.port, "/v1/traces", body, content_type, headers)
    assert (reply.status, counts(reply)) == (200, (3, 0, 0))
    assert reply.headers["content-type"] == content_type.split(";")[0]
    assert reply.body == (b"\x0a\x00" if content_type == PROTOBUF else b'{"partialSuccess":{}}')
    sent = sdk_spans()
    trace = read(daemon, "/v1/traces/" + sent[0]["trace_id"])
    assert trace["span_count"] == len(trace["spans"]) == len(sent)
    stored = {span["span_id"]: span for span in trace["spans"]}
    for span in sent:
        for key, value in span.items():
            assert stored[span["span_id"]].get(key) == value, (span["name"], key)


def test_gzip_sdk_body_as_it_left_the_sdk(site):
    daemon = site.daemon()
    reply = http.post(daemon.port, "/v1/traces", (SDK / "sdk-traces.pb.gz").read_bytes(), PROTOBUF,
                      {"Content-Encoding": "gzip"})
    assert (reply.status, counts(reply)) == (200, (3, 0, 0))


def test_native_batch_comes_back(any_site):
    daemon = any_site.daemon()
    span = event(parent_id="1122334455667788", status="error", error="timeout",
                 attrs={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7,
                        "text": "naïve \u0001 \"quoted\"", "deep": {"list": [1, 2.5, True, None]}})
    reply = http.post(daemon.port, "/v1/ingest", native([span], resource=RESOURCE))
    assert (reply.status, counts(reply)) == (200, (1, 0, 0))
    assert json.loads(reply.body) == {"accepted": 1, "duplicate": 0, "rejected": 0}
    stored, = read(daemon, "/v1/traces/" + span["trace_id"])["spans"]
    assert stored["attributes"] == span["attrs"]
    assert stored["resource"] == RESOURCE
    assert stored["error"] == "timeout" and stored["in_tok"] == 7 and stored["op"] == "chat"
    assert stored["service"] == RESOURCE["service.name"]
    assert stored["parent_id"] == span["parent_id"]


# Twice is once.

def test_resend_is_a_duplicate_also_after_a_restart(any_site):
    daemon = any_site.daemon()
    for make in (otlp_request, native_request):
        for key in (None, "my-key-" + make.__name__):
            request = make(10, key)
            assert counts(send(daemon, request)) == (3, 0, 0)
            assert counts(send(daemon, request)) == (0, 3, 0)
            daemon.kill9()
            daemon.start()
            assert counts(send(daemon, request)) == (0, 3, 0)
    store = daemon.store()
    assert store.count_spans() == 12
    assert {trace[0] for trace in store.traces().values()} == {3}


def test_direct_and_relayed_copy_meet(any_site):
    """A relay presents the key that it derives; the daemon derives the same from the same bytes."""
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=[daemon.url])
    request = native_request(1)
    assert counts(send(daemon, request)) == (3, 0, 0)
    assert send(relay, request).status == 202
    relay.wait_drained()
    relay.wait_metric("mcpd_relay_delivered_total", 1)
    assert daemon.store().query("select count(*) from idem") == [(1,)]


def test_key_forms_and_order(any_site):
    daemon = any_site.daemon()
    assert counts(send(daemon, native_request(1, key='"abc"'))) == (3, 0, 0)
    assert counts(send(daemon, native_request(2, key="abc"))) == (0, 3, 0)
    # The key in the batch wins over the header's.
    assert counts(send(daemon, native_request(3, key="abc", body_key="own"))) == (3, 0, 0)
    assert counts(send(daemon, native_request(4, key="other", body_key="own"))) == (0, 3, 0)
    assert daemon.metric("mcpd_idempotency_mismatch_total") == 2
    for bad in ("a b", "x" * 201, '""', "é"):
        reply = send(daemon, native_request(5, key=bad))
        assert reply.status == 400, bad
        assert json.loads(reply.body)["error"]["code"] == "bad_idempotency_key"
    assert daemon.store().count_spans() == 6


def test_key_alone_stops_other_spans(any_site):
    """The first layer by itself: the same key with spans that nobody has seen."""
    daemon = any_site.daemon()
    assert counts(send(daemon, otlp_request(1, "k"))) == (3, 0, 0)
    assert counts(send(daemon, otlp_request(2, "k"))) == (0, 3, 0)
    assert daemon.store().count_spans() == 3


def test_identity_alone_stops_a_resend(any_site):
    """The second layer by itself: every key is forgotten before the resend."""
    daemon = any_site.daemon()
    store, requests = daemon.store(), list(mixed(20))
    for request in requests:
        assert counts(send(daemon, request)) == (3, 0, 0)
    before = store.traces()
    assert store.forget_keys() == 20
    for request in requests:
        assert counts(send(daemon, request)) == (0, 3, 0)
    assert store.count_spans() == 60 and store.traces() == before


def test_sums_stay_when_the_same_comes_three_times(any_site):
    daemon = any_site.daemon()
    load = Load(daemon.port, [one for one in mixed(30) for _ in range(3)], connections=6).run()
    assert load.statuses() == {200: 90}
    Comparison(load.sent, daemon.store()).check()
    assert daemon.metric("mcpd_ingest_events_total") == 270


def test_same_key_at_once_is_stored_once(any_site):
    daemon = any_site.daemon()
    request = otlp_request(1, "at-once")
    load = Load(daemon.port, [request] * 64, connections=32).run()
    assert load.statuses() == {200: 64}
    seen = sorted(counts(sent.reply) for sent in load.sent)
    assert seen == [(0, 3, 0)] * 63 + [(3, 0, 0)]
    assert daemon.store().count_spans() == 3


def test_timed_out_request_that_was_committed_is_a_duplicate(site):
    """The sender gives up while the store is held, the commit goes through, the resend adds
    nothing."""
    daemon = site.daemon(request_timeout_seconds=1)
    store, request = Store(daemon.data), otlp_request(1)
    holder = sqlite3.connect(daemon.data, isolation_level=None)
    holder.execute("begin immediate")
    reply = send(daemon, request)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    holder.execute("rollback")
    holder.close()
    wait_until(lambda: store.count_spans() == 3, what="the abandoned request is committed")
    assert counts(send(daemon, request)) == (0, 3, 0)
    Comparison([], store)
    assert set(store.traces().values()) == {(3, 101, 11)}


# Bad input.

def nested_json(depth):
    return (b'{"schema":1,"events":[{"type":"span","attrs":' + b'{"a":' * depth + b"1" +
            b"}" * depth + b"}]}")


def nested_protobuf(depth):
    """An attribute whose value is an array in an array ... `depth` deep, built inside out."""
    value = pb_bytes(1, "x")
    head = []
    length = len(value)
    for _ in range(depth):
        for number in (1, 5):  # ArrayValue.values, AnyValue.array_value
            tag = pb_bytes(number, b"x" * length)[:-length] if length < 200 else \
                bytes([number << 3 | 2]) + varint_of(length)
            head.append(tag)
            length += len(tag)
    value = b"".join(reversed(head)) + value
    attribute = pb_bytes(9, pb_bytes(1, "deep") + pb_bytes(2, value))
    span = pb_span(new_trace_id(), new_span_id(), None, "n", 1, 1, 2, {}) + attribute
    return pb_traces([span], RESOURCE)


def varint_of(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


BOMB = gzip.compress(b" " * (20 * 1024 * 1024))
BAD_BODIES = {
    "json cut short": ("/v1/ingest", b'{"events":[', JSON, {}, 400),
    "no json": ("/v1/ingest", b"hello", JSON, {}, 400),
    "json without events": ("/v1/ingest", b"{}", JSON, {}, 400),
    "json array": ("/v1/ingest", b"[]", JSON, {}, 400),
    "empty native body": ("/v1/ingest", b"", JSON, {}, 400),
    "native as protobuf": ("/v1/ingest", b"", PROTOBUF, {}, 415),
    "native as form": ("/v1/ingest", b"{}", "application/x-www-form-urlencoded", {}, 415),
    "no protobuf": ("/v1/traces", b"\xff\xff\xff", PROTOBUF, {}, 400),
    "protobuf cut short": ("/v1/traces", otlp_request(1).body[:-7], PROTOBUF, {}, 400),
    "otlp json cut short": ("/v1/traces", b'{"resourceSpans":[', JSON, {}, 400),
    "otlp as text": ("/v1/traces", b"x", "text/plain", {}, 415),
    "no gzip": ("/v1/traces", b"no gzip", PROTOBUF, {"Content-Encoding": "gzip"}, 400),
    "gzip cut short": ("/v1/traces", gzip.compress(otlp_request(1).body)[:-9], PROTOBUF,
                       {"Content-Encoding": "gzip"}, 400),
    "unknown encoding": ("/v1/traces", b"x", PROTOBUF, {"Content-Encoding": "br"}, 415),
    "gzip bomb": ("/v1/ingest", BOMB, JSON, {"Content-Encoding": "gzip"}, 413),
    "over the body limit": ("/v1/ingest", b"x" * (1024 * 1024 + 1), JSON, {}, 413),
    "10,001 events": ("/v1/ingest", native([{}] * 10001), JSON, {}, 413),
    "json 100,000 deep": ("/v1/ingest", nested_json(100000), JSON, {}, 400),
    "brackets 100,000 deep": ("/v1/ingest", b"[" * 100000, JSON, {}, 400),
    "otlp json 100,000 deep": ("/v1/traces", b"[" * 100000, JSON, {}, 400),
    "protobuf 100,000 deep": ("/v1/traces", nested_protobuf(100000), PROTOBUF, {}, 400),
    "all events rejected": ("/v1/ingest", native([event(trace_id="xyz"), {"type": "score"}]), JSON,
                            {}, 400),
    "all spans rejected": ("/v1/traces",
                           pb_traces([pb_span("00" * 16, "00" * 8, None, "n", 1, 1, 2, {})], {}),
                           PROTOBUF, {}, 400),
}


def check_error_form(path, content_type, reply):
    """google.rpc.Status on OTLP paths in the request's encoding, our JSON elsewhere."""
    if path == "/v1/traces" and content_type == PROTOBUF:
        assert reply.headers["content-type"] == PROTOBUF
        assert reply.body[:1] in (b"\x08", b"\x12"), reply.body
    elif path == "/v1/traces":
        assert "message" in json.loads(reply.body)
    else:
        assert json.loads(reply.body).keys() & {"error", "errors"}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_bad_body_is_refused_and_stores_nothing(site, case):
    path, body, content_type, headers, status = BAD_BODIES[case]
    daemon = site.daemon(max_body_bytes="1MiB")
    pid = daemon.pid
    reply = http.post(daemon.port, path, body, content_type, headers)
    assert reply.status == status, reply
    check_error_form(path, content_type, reply)
    store = Store(daemon.data)
    assert store.count_spans() == 0
    assert store.query("select count(*) from idem") == [(0,)]
    # It neither died nor minds what comes next.
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    assert daemon.pid == pid and daemon.is_alive()


def test_too_many_events_names_the_limit(site):
    daemon = site.daemon()
    reply = http.post(daemon.port, "/v1/ingest", native([{}] * 10001))
    error = json.loads(reply.body)["error"]
    assert (error["code"], error["limit"]) == ("too_many_events", 10000)


def test_large_otlp_body_is_taken(any_site):
    """20,000 spans in one request, twice."""
    daemon = any_site.daemon()
    trace_id, now = new_trace_id(), time.time_ns()
    spans = [pb_span(trace_id, f"{i + 1:016x}", None, "n", 1, now, now + 1, {})
             for i in range(20000)]
    body = pb_traces(spans, RESOURCE)
    for expected in ((20000, 0, 0), (0, 20000, 0)):
        reply = http.post(daemon.port, "/v1/traces", body, PROTOBUF)
        assert (reply.status, counts(reply)) == (200, expected)
    assert daemon.store().traces() == {trace_id: (20000, 0, 0)}


def test_some_rejected_the_rest_stored(any_site):
    daemon = any_site.daemon()
    good = [event(), event()]
    body = native([good[0], {"type": "nonsense", "id": "e1"}, event(span_id="zz"), good[1]])
    for expected in ((2, 0, 2), (0, 2, 2)):
        reply = http.post(daemon.port, "/v1/ingest", body)
        answer = json.loads(reply.body)
        assert (reply.status, counts(reply)) == (200, expected)
        assert tuple(answer[k] for k in ("accepted", "duplicate", "rejected")) == expected
        assert [(e["index"], e["code"]) for e in answer["errors"]] == [(1, "bad_type"),
                                                                      (2, "bad_id")]
    store = daemon.store()
    assert store.count_spans() == 2
    assert store.query("select position, code from rejects order by position") == [
        (1, "bad_type"), (2, "bad_id")]


def test_errors_are_cut_at_a_hundred(any_site):
    daemon = any_site.daemon()
    reply = http.post(daemon.port, "/v1/ingest", native([event()] + [{"type": "x"}] * 150))
    answer = json.loads(reply.body)
    assert len(answer["errors"]) == 100 and answer["errors_omitted"] == 50
    assert counts(reply) == (1, 0, 150)


def test_otlp_partial_success(any_site):
    daemon, now = any_site.daemon(), time.time_ns()
    spans = [pb_span(new_trace_id(), new_span_id(), None, "n", 1, now, now, {}),
             pb_span("00" * 16, new_span_id(), None, "n", 1, now, now, {})]
    reply = http.post(daemon.port, "/v1/traces", pb_traces(spans, {}), PROTOBUF)
    assert (reply.status, counts(reply)) == (200, (1, 0, 1))
    assert reply.body[2:4] == b"\x08\x01"  # partial_success.rejected_spans = 1
    empty = http.post(daemon.port, "/v1/traces", b"", PROTOBUF)
    assert (empty.status, counts(empty)) == (200, (0, 0, 0))


KEY, SHOP_IN, SHOP_RD, SHOP_SC, SHOP_AD = (f"key-{n}-of-enough-letters" for n in range(5))
KEYS = [KEY, "shop/in=" + SHOP_IN, "shop/rd=" + SHOP_RD, "shop/sc=" + SHOP_SC, "shop/ad=" + SHOP_AD]


def bearer(key):
    return {"Authorization": "Bearer " + key}


def test_wrong_and_missing_key(site):
    daemon = site.daemon(ingest_key=KEYS)
    request = otlp_request(1)
    for headers in ({}, bearer("wrong"), {"x-mcpd-key": "wrong"}, bearer(""),
                    bearer("shop/in=" + SHOP_IN)):
        assert send(daemon, request, **headers).status == 401
        assert http.get(daemon.port, "/v1/traces", headers=headers).status == 401
    assert Store(daemon.data).count_spans() == 0
    assert http.get(daemon.port, "/readyz").status == 200
    assert send(daemon, request, **{"x-mcpd-key": KEY}).status == 200
    # Bearer comes first.
    assert send(daemon, request, **{"x-mcpd-key": "wrong"}, **bearer(KEY)).status == 200


def test_scopes(site):
    daemon = site.daemon(ingest_key=KEYS)
    score = json.dumps({"schema": 1, "events": [
        {"type": "score", "id": "s", "name": "n", "value": 1, "data_type": "number",
         "session_id": "x"}]}).encode()
    for key, sends, scores, reads in ((KEY, 200, 200, 403), (SHOP_IN, 200, 200, 403),
                                      (SHOP_RD, 403, 403, 200), (SHOP_SC, 403, 200, 403),
                                      (SHOP_AD, 200, 200, 200)):
        for request in (otlp_request(1), native_request(1)):
            reply = send(daemon, request, **bearer(key))
            if key == SHOP_SC and request.path == "/v1/ingest":
                assert (reply.status, counts(reply)) == (400, (0, 0, 3))
            else:
                assert reply.status == sends, (key, request.path)
        reply = http.post(daemon.port, "/v1/ingest", score, JSON, bearer(key))
        assert reply.status == scores, key
        for path in ("/v1/traces", "/v1/scores", "/v1/traces/" + new_trace_id()):
            reply = http.get(daemon.port, path, headers=bearer(key))
            assert reply.status == (404 if reads == 200 and path.count("/") == 3 else reads), key
            if reads == 403:
                assert json.loads(reply.body)["error"]["code"] == "wrong_scope"


def test_projects_do_not_see_each_other(any_site):
    """The same request in two projects is two requests; a key reads its own project only."""
    daemon = any_site.daemon(ingest_key=KEYS + ["default/rd=reads-the-default-project"])
    request = otlp_request(1, "same-key")
    for key in (KEY, SHOP_IN):
        assert counts(send(daemon, request, **bearer(key))) == (3, 0, 0)
        assert counts(send(daemon, request, **bearer(key))) == (0, 3, 0)
    assert counts(send(daemon, native_request(2), **bearer(SHOP_IN))) == (3, 0, 0)
    for key, traces in ((SHOP_RD, 2), ("reads-the-default-project", 1)):
        reply = http.get(daemon.port, "/v1/traces", headers=bearer(key))
        assert len(json.loads(reply.body)["traces"]) == traces
    for query, status in (("?project=shop", 200), ("?project=default", 400)):
        reply = http.get(daemon.port, "/v1/traces" + query, headers=bearer(SHOP_RD))
        assert reply.status == status


def test_relay_keeps_each_senders_project(any_site):
    """Without a key of its own a relay passes each sender's on, and the project with it."""
    daemon = any_site.daemon(ingest_key=KEYS)
    relay = any_site.relay(upstream=[daemon.url], ingest_key=KEYS)
    for key, number in ((KEY, 1), (SHOP_IN, 2), (SHOP_IN, 3)):
        assert send(relay, native_request(number), **bearer(key)).status == 202
    relay.wait_metric("mcpd_relay_delivered_total", 3)
    assert daemon.store().query(
        "select name, count(*) from traces join projects on id = project group by 1 order by 1"
    ) == [("default", 1), ("shop", 2)]


def test_key_given_twice_is_refused_at_start(site):
    refused = run_once("daemon", "--data", site.folder / "x.db", "--listen", "127.0.0.1:0",
                       "--ingest-key", "shop/in=the-same-key-here", "--ingest-key",
                       "the-same-key-here")
    assert refused.returncode != 0 and "--ingest-key" in refused.stderr
    assert "the-same-key-here" not in refused.stderr


SHOP_KEY = "mcpd_ad_shop_0123456789abcdefABCDEF0123456789_"


def made_key(scope, project):
    made = run_once("key", "new", "--scope", scope, "--project", project)
    assert made.returncode == 0
    return made.stdout.strip()


def test_keys_that_name_project_and_scope(site):
    sends, reads = made_key("in", "shop"), made_key("rd", "shop")
    daemon = site.daemon(ingest_key=[sends, reads, "other/in=" + made_key("ad", "shop")])
    assert send(daemon, otlp_request(1), **bearer(sends)).status == 200
    assert http.get(daemon.port, "/v1/traces", headers=bearer(sends)).status == 403
    reply = http.get(daemon.port, "/v1/traces", headers=bearer(reads))
    assert len(json.loads(reply.body)["traces"]) == 1
    assert Store(daemon.data).query("select name from projects") == [("shop",)]
    for key, code in ((sends[:-1] + ("a" if sends[-1] != "a" else "b"), "key_mistyped"),
                      (made_key("in", "shop"), "unauthorized")):
        reply = http.get(daemon.port, "/v1/traces", headers=bearer(key))
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert json.loads(reply.body)["error"]["code"] == code


def test_mistyped_key_stops_the_start(site):
    key = SHOP_KEY + "abcdef"
    for role in ("daemon", "relay"):
        refused = run_once(role, "--data", site.folder / "x.db", "--listen", "127.0.0.1:0",
                           "--ingest-key", "shop/in=" + key)
        assert refused.returncode == 2 and "--ingest-key" in refused.stderr
        assert "mistyped" in refused.stderr and key not in refused.stderr


def test_refused_reading_is_our_own_json(site):
    """What is sent to an OTLP path is refused as OTLP has it, what is read from it is not."""
    daemon = site.daemon(ingest_key=KEYS)
    for path in ("/v1/traces", "/v1/logs", "/v1/metrics"):
        reply = http.get(daemon.port, path, headers={"Content-Type": PROTOBUF})
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (401, "unauthorized")
        reply = http.post(daemon.port, path, b"", PROTOBUF)
        assert (reply.status, reply.body[:2]) == (401, b"\x08\x10")


def test_methods_and_paths(site):
    daemon = site.daemon()
    reply = http.get(daemon.port, "/v1/ingest")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert http.request(daemon.port, "DELETE", "/v1/traces").status == 405
    for path in ("/v1/nothing", "/", "/v1/traces%2f", "//v1/traces", "/v1/ingest/"):
        assert http.post(daemon.port, path, b"{}").status == 404, path


# Reading.

def test_list_is_newest_first_with_cursor_and_filters(any_site):
    daemon, now = any_site.daemon(), time.time_ns()
    spans = [event(start_ns=now - i * 1000, end_ns=now, trace_id=f"{i + 1:032x}",
                   status="error" if i % 4 == 0 else "ok",
                   attrs={"gen_ai.operation.name": "chat", "gen_ai.request.model": f"m{i % 2}",
                          "gen_ai.conversation.id": f"s{i % 5}"}) for i in range(50)]
    random.shuffle(spans)
    assert http.post(daemon.port, "/v1/ingest", native(spans)).status == 200
    seen, path = [], "/v1/traces?limit=20"
    while path:
        page = read(daemon, path)
        seen += [int(trace["trace_id"], 16) for trace in page["traces"]]
        cursor = page.get("next_cursor")
        path = cursor and f"/v1/traces?limit=20&cursor={cursor}"
    assert seen == list(range(1, 51))
    for query, expected in (("model=m1", 25), ("session=s%33", 10), ("status=error", 13),
                            ("status=ok&model=m0", 12), ("tool=x", 0), ("agent=x", 0),
                            ("min_ms=0", 50), ("min_ms=1", 0),
                            (f"from={now - 10000}", 11), (f"to={now - 10000}", 39),
                            ("from=2199-01-01T00:00:00Z", 0), ("to=2001-01-01T00:00:00.5Z", 0)):
        assert len(read(daemon, "/v1/traces?limit=200&" + query)["traces"]) == expected, query
    for query in ("limit=0", "limit=201", "limit=x", "status=maybe", "cursor=zz", "what=1",
                  "model=a&model=b", "model=%zz", "model=%00", "from=yesterday", "project=other",
                  "from=2001-13-01T00:00:00Z", "from=2001-+1-01T00:00:00Z", "session=",
                  "from=2001-02-29T00:00:00Z", "to=2001-04-31T23:59:60Z",
                  "from=2001-01-01T00:00:00", "from=2001-01-01T00:00:00.Z", "from=-5"):
        reply = http.get(daemon.port, "/v1/traces?" + query)
        assert reply.status == 400, query
        assert json.loads(reply.body)["error"]["code"] == "bad_parameter", query


@pytest.mark.parametrize("path", ["traces", "logs", "scores", "runs", "rejects", "sessions"])
def test_bytes_that_no_row_can_have_are_the_askers_fault(any_site, path):
    """Not the store's, whichever it is: it would be asked for ever, and told that it is away."""
    daemon = any_site.daemon()
    time_ns = f"{time.time_ns():016x}"
    types = {"int": "01", "text": "03", "bytes": "04"}
    wrong = set(types) - {{"traces": "bytes", "logs": "int", "rejects": "int"}.get(path, "text")}
    queries = [f"cursor={types[one]}{time_ns}{'31' * 8}" for one in sorted(wrong)]
    queries += [f"cursor=03{time_ns}ff", "where=name=%22%ff%22"]
    if path in ("traces", "logs", "sessions", "runs"):
        queries.append("session=%ff")
    for query in queries:
        reply = http.get(daemon.port, f"/v1/{path}?{query}")
        assert reply.status == 400, (query, reply)


def test_unknown_trace_is_404(any_site):
    daemon = any_site.daemon()
    for trace_id in (new_trace_id(), "abc", "", "../" + new_trace_id()):
        reply = http.get(daemon.port, "/v1/traces/" + trace_id)
        assert reply.status == 404, trace_id


# Death and trouble.

@pytest.mark.parametrize("round_number", range(4))
def test_killed_under_load_keeps_every_2xx_once(any_site, round_number):
    daemon = any_site.daemon()
    load = Load(daemon.port, mixed(4000, first=round_number * 4000), connections=8, retry=None)
    load.start()
    for _ in range(3):
        wanted = len(load.accepted) + random.randint(20, 200)
        wait_until(lambda n=wanted: len(load.accepted) >= n or not load.is_running, 30, "progress")
        daemon.kill9()
        daemon.start()
    load.join()
    assert load.statuses() == {200: 4000}
    store = daemon.store()
    Comparison(load.sent, store).check()
    # Key and rows went together: each key row's counts are all rows there are.
    assert store.query("select sum(accepted) from idem") == [(store.count_spans(),)]


def test_sigterm_under_load_answers_what_it_took(any_site):
    daemon = any_site.daemon()
    load = Load(daemon.port, mixed(100000), connections=8).start()
    wait_until(lambda: len(load.accepted) > 200, 30, "progress")
    daemon.signal(15)
    load.stop()
    assert daemon.wait() == 0
    assert not [sent for sent in load.sent if sent.status not in (200, 503, None)]
    Comparison(load.sent, daemon.store()).check()


def test_second_daemon_on_the_same_file_is_refused(site):
    daemon = site.daemon()
    second = run_once("daemon", "--data", daemon.data, "--listen", "127.0.0.1:0")
    assert second.returncode != 0
    assert "in use by another daemon" in second.stderr and str(daemon.data) in second.stderr
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)


def test_foreign_file_is_refused_untouched(site, tmp_path):
    path = tmp_path / "other.db"
    for content in (b"this is no database at all, only text\n" * 100, None):
        if content is None:
            path.unlink()
            with sqlite3.connect(path) as other:
                other.execute("create table mine (a)")
            content = path.read_bytes()
        path.write_bytes(content)
        refused = run_once("daemon", "--data", path, "--listen", "127.0.0.1:0")
        assert refused.returncode != 0 and str(path) in refused.stderr
        assert path.read_bytes() == content


def test_held_store_is_503_and_not_ready_until_it_is_free(site):
    daemon = site.daemon()
    request = otlp_request(1)
    holder = sqlite3.connect(daemon.data, isolation_level=None)
    holder.execute("begin immediate")
    reply = send(daemon, request)
    assert reply.status == 503 and int(reply.headers["retry-after"]) >= 1
    assert daemon.readyz()[0] == 503
    assert http.get(daemon.port, "/healthz").status == 200
    assert read(daemon, "/v1/traces") == {"traces": []}
    holder.execute("rollback")
    daemon.wait_ready()
    assert counts(send(daemon, request)) == (3, 0, 0)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_data_file_gone_from_under_the_daemon_is_503_until_it_is_back(site, how):
    """What would be written to a file that has no name any more would end with the process."""
    daemon = site.daemon()
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    aside = daemon.data.with_name("aside")
    os.rename(daemon.data, aside)
    if how == "replaced":
        shutil.copy(aside, daemon.data)
    reply = send(daemon, otlp_request(2))
    assert reply.status == 503 and int(reply.headers["retry-after"]) >= 1
    wait_until(lambda: daemon.readyz()[0] == 503, 20, "not ready")
    assert "the data file was removed or replaced" in daemon.log()
    os.rename(aside, daemon.data)
    daemon.wait_ready(20)
    assert counts(send(daemon, otlp_request(2))) == (3, 0, 0)
    assert daemon.stop() == 0
    assert daemon.store().count_spans() == 6


def spans_in_the_file_alone(path):
    """Without its log."""
    file = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    try:
        return file.execute("select count(*) from spans").fetchone()[0]
    finally:
        file.close()


def test_a_log_removed_beside_the_data_file_loses_nothing(site):
    """What was answered lies in it: it is saved, and nothing more is taken."""
    daemon, request = site.daemon(), otlp_request(1)
    assert counts(send(daemon, request)) == (3, 0, 0)
    for suffix in ("-wal", "-shm"):
        os.unlink(f"{daemon.data}{suffix}")
    assert send(daemon, otlp_request(2)).status == 503
    wait_until(lambda: daemon.readyz()[0] == 503, 20, "not ready")
    assert "-wal was removed" in daemon.log()
    wait_until(lambda: spans_in_the_file_alone(daemon.data) == 3, 20, "saved")
    daemon.kill9()
    daemon.start()
    assert counts(send(daemon, request)) == (0, 3, 0)
    assert counts(send(daemon, otlp_request(2))) == (3, 0, 0)


def test_full_disk_is_503_and_not_ready_until_there_is_room(site, small_disk):
    daemon = site.daemon(data=str(small_disk / "mcpd.db"))
    ballast = small_disk / "ballast"
    assert counts(send(daemon, otlp_request(1))) == (3, 0, 0)
    fill(ballast)
    load = Load(daemon.port, mixed(200), connections=4).run()
    assert load.statuses()[503] > 0 and set(load.statuses()) <= {200, 503}
    assert daemon.readyz()[0] == 503
    ballast.unlink()
    daemon.wait_ready()
    load.sent += Load(daemon.port, [s.request for s in load.sent if not s.is_accepted],
                      connections=4).run().sent
    store = Store(small_disk / "mcpd.db")
    Comparison([s for s in load.sent if s.is_accepted], store)
    assert store.count_spans() == 3 + 600
    assert {trace[0] for trace in store.traces().values()} == {3}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 32 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("NOT TESTED: no right to mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def test_slow_reader_does_not_delay_senders(site):
    """A long read of the file by another program: writing goes on."""
    daemon = site.daemon()
    send(daemon, otlp_request(1))
    reader = sqlite3.connect(daemon.data, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from spans").fetchall()
    load = Load(daemon.port, mixed(200, first=10), connections=4).run()
    assert load.statuses() == {200: 200}
    assert reader.execute("select count(*) from spans").fetchall() == [(3,)]
    reader.close()


def test_many_bodies_to_decode_at_once(any_site):
    """More large bodies than decoders: all are taken, none is mixed up with another."""
    daemon, now = any_site.daemon(), time.time_ns()
    traces = [new_trace_id() for _ in range(12)]
    replies = []

    def post(trace_id, number):
        spans = [pb_span(trace_id, f"{i + 1:016x}", None, f"body {number}", 1, now, now, {})
                 for i in range(1000 + number)]
        body = gzip.compress(pb_traces(spans, RESOURCE))
        replies.append(http.post(daemon.port, "/v1/traces", body, PROTOBUF,
                                 {"Content-Encoding": "gzip"}))

    threads = [threading.Thread(target=post, args=(t, i)) for i, t in enumerate(traces)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 12
    store = daemon.store()
    stored = store.query(
        f"select {store.HEX('trace_id')}, name, count(*) from spans group by 1, 2")
    assert sorted(stored) == sorted((t, f"body {i}", 1000 + i) for i, t in enumerate(traces))
