# SPDX-License-Identifier: MIT
"""The same bodies to a daemon on SQLite and to one on Postgres, with what a database could stumble
over: both answer alike, and give back the same."""
import hashlib
import json
import pathlib
import struct
import time

import pytest

from lib import http
from lib.client import counts, event, native, read
from lib.telemetry import (new_span_id, new_trace_id, pb_attribute, pb_bytes, pb_span, pb_traces,
                           varint)

SDK = pathlib.Path(__file__).resolve().parents[1] / "data" / "otlp"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
NOW = time.time_ns()
DAY_NS = 86400 * 10**9
LISTS = ("traces", "sessions", "logs", "metrics", "scores", "runs", "rejects")
VOLATILE = ("created_ns", "last_seen", "seen_ns", "created", "seen")


@pytest.fixture(name="both")
def both_daemons(site, postgres):
    return [site.daemon(), site.daemon(store=postgres.url).wait_ready()]


def raw_span(attrs):
    """A native batch whose attributes are this JSON text."""
    span = json.dumps(event(trace_id="0af7651916cd43dd8448eb211c80319c",
                            span_id="b7ad6b7169203331", start_ns=NOW, end_ns=NOW + 1000))
    return b'{"schema":1,"events":[' + span[:-1].encode() + b',"attrs":' + attrs + b"}]}"


def spans_at(*times):
    return native([event(trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}",
                         start_ns=start, end_ns=end) for number, (start, end) in enumerate(times)])


def pb_body(attribute):
    """One OTLP span with this attribute, a KeyValue in protobuf."""
    span = pb_span(f"{7:032x}", f"{8:016x}", None, "n", 1, NOW, NOW + 1, {}) + attribute
    return pb_traces([span], {"service.name": "hostile"})


def scores(*values):
    return native([{"type": "score", "id": f"s{number}", "name": "n", "value": value,
                    "data_type": "number", "session_id": "x"}
                   for number, value in enumerate(values)])


TEXT = b'"a\\u0000b\\ud800c\\udfff\\ud83d\\ude00 \\u0001\\u007f\\\\u0000"'
# Longer than a row of an index may be, and it does not compress.
LONG = hashlib.shake_128(b"long").hexdigest(20_000)
BODIES = {
    "U+0000 and lone surrogates": ("/v1/ingest", raw_span(b'{"k":' + TEXT + b"}"), JSON),
    "the same in keys": ("/v1/ingest", raw_span(b"{" + TEXT + b":1," + TEXT + b":2}"), JSON),
    "the same in columns": ("/v1/ingest", raw_span(
        b'{"gen_ai.request.model":' + TEXT + b',"gen_ai.conversation.id":' + TEXT +
        b',"user.id":' + TEXT + b',"gen_ai.operation.name":"chat"}'), JSON),
    "the same in content": ("/v1/ingest", raw_span(
        b'{"gen_ai.input.messages":' + TEXT + b"}"), JSON),
    "numbers no double holds": ("/v1/ingest", raw_span(
        b'{"a":1e400,"b":-1e400,"c":1e-400,"d":123456789012345678901234567890,"e":-0.0,'
        b'"f":9223372036854775807,"g":-9223372036854775808,"h":9223372036854775808,"i":1e200000}'),
        JSON),
    "tokens out of range": ("/v1/ingest", raw_span(
        b'{"gen_ai.operation.name":"chat","gen_ai.usage.input_tokens":9223372036854775807,'
        b'"gen_ai.usage.output_tokens":-5,"gen_ai.usage.cache_read.input_tokens":1.5}'), JSON),
    "bytes that are no UTF-8": ("/v1/ingest", raw_span(
        b'{"k":"\xff\xfe\xc0\x80 \xed\xa0\x80"}'), JSON),
    "nearly a MiB of attributes": ("/v1/ingest", raw_span(
        b'{"k":"' + b"x" * 900_000 + b'"}'), JSON),
    "nearly a MiB that does not compress": ("/v1/ingest", raw_span(
        b'{"k":"' + hashlib.shake_128(b"x").hexdigest(450_000).encode() + b'"}'), JSON),
    "a long session": ("/v1/ingest", raw_span(
        b'{"gen_ai.conversation.id":"' + LONG.encode() + b'"}'), JSON),
    "a long metric name": ("/v1/ingest", native(
        [{"type": "metric", "ts_ns": NOW, "name": LONG, "kind": "gauge", "value": 4}]), JSON),
    "long ids": ("/v1/ingest", native(
        [{"type": "run", "id": LONG, "state": "done", "start_ns": NOW, "end_ns": NOW},
         {"type": "score", "id": LONG, "name": LONG, "value": 1, "data_type": "number",
          "session_id": LONG},
         {"type": "log", "ts_ns": NOW, "body": LONG, "severity": "warn"}]), JSON),
    "depth": ("/v1/ingest", raw_span(b'{"k":' + b"[" * 12 + b"]" * 12 + b"}"), JSON),
    "times": ("/v1/ingest", spans_at((1, 2), (0, 1), (NOW + 2 * DAY_NS, None), (NOW, NOW - 1),
                                     (2**63 - 1, 2**63 - 1), (2**63, 2**63), (2**64, 2**64),
                                     (-1, 1), (NOW - 4000 * DAY_NS, NOW), (NOW, 2**63 - 1)), JSON),
    "numbers of scores": ("/v1/ingest", scores(1.7976931348623157e308, 5e-324, -0.0, 0.1,
                                               2**53 + 1), JSON),
    "score that is not finite": ("/v1/ingest", b'{"schema":1,"events":[{"type":"score","id":"s",'
                                 b'"name":"n","value":1e999,"data_type":"number",'
                                 b'"session_id":"x"}]}', JSON),
    "protobuf text with zeros": ("/v1/traces", pb_body(
        pb_attribute(9, "k\0y", "a\0b")), PROTOBUF),
    "protobuf text that is no UTF-8": ("/v1/traces", pb_body(
        pb_bytes(9, pb_bytes(1, b"\xff\xfek") +
                 pb_bytes(2, pb_bytes(1, b"\xed\xa0\x80\xc0")))), PROTOBUF),
    "protobuf not a number": ("/v1/traces", pb_body(b"".join(
        pb_bytes(9, pb_bytes(1, name) + pb_bytes(2, varint(4 << 3 | 1) + struct.pack("<d", value)))
        for name, value in (("nan", float("nan")), ("inf", float("inf")),
                            ("less", -float("inf"))))), PROTOBUF),
    "sdk traces": ("/v1/traces", (SDK / "sdk-traces.pb").read_bytes(), PROTOBUF),
    "sdk logs": ("/v1/logs", (SDK / "sdk-logs.pb").read_bytes(), PROTOBUF),
    "sdk metrics": ("/v1/metrics", (SDK / "sdk-metrics.pb").read_bytes(), PROTOBUF),
    "same identity twice in a body": ("/v1/ingest", native(
        [event(trace_id=f"{1:032x}", span_id=f"{1:016x}", start_ns=NOW, end_ns=end, name=name)
         for name, end in (("open", None), ("closed", NOW + 5), ("again", NOW + 6))]), JSON),
    "a run that ends twice in a body": ("/v1/ingest", native(
        [{"type": "run", "id": "r", "state": state, "start_ns": NOW, "end_ns": end, "attrs": {}}
         for state, end in (("running", None), ("done", NOW + 1), ("failed", NOW + 2))]), JSON),
}


def steady(value):
    """Without what each store notes by its own clock."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in VOLATILE}
    return [steady(one) for one in value] if isinstance(value, list) else value


def everything(daemon):
    """All that can be read."""
    lists = {name: read(daemon, f"/v1/{name}?limit=200") for name in LISTS}
    traces = {trace["trace_id"]: read(daemon, "/v1/traces/" + trace["trace_id"])
              for trace in lists["traces"]["traces"]}
    return steady([lists, traces])


@pytest.mark.parametrize("case", BODIES)
def test_hostile_body(both, case):
    """Whatever it holds: the same answer, the same rows, the same for its resend, and what comes
    next is taken."""
    path, body, content_type = BODIES[case]
    for _ in range(2):
        replies = [http.post(daemon.port, path, body, content_type) for daemon in both]
        assert replies[0].status == replies[1].status in (200, 400), replies
        assert replies[0].body == replies[1].body
        assert counts(replies[0]) == counts(replies[1]), replies
    lite, pg = map(everything, both)
    assert lite == pg
    for daemon in both:
        assert counts(http.post(daemon.port, "/v1/ingest", native([event()]))) == (1, 0, 0)


def pages(daemon, name, query):
    """What a list says, page by page."""
    cursor = ""
    while cursor is not None:
        reply = http.get(daemon.port, f"/v1/{name}?limit=37{cursor}{query}")
        page = json.loads(reply.body)
        yield reply.status, steady(page)
        cursor = page.get("next_cursor") and f"&cursor={page['next_cursor']}"


def test_pages_and_filters(both):
    """Lists of hundreds of rows with equal times: the same pages in the same order, whatever is
    asked."""
    batches = [[event(trace_id=f"{number * 7919 % 1000 + 1:032x}", span_id=new_span_id(),
                      start_ns=NOW - number // 7 * 10**6, end_ns=NOW - number // 7 * 10**6 + number,
                      status=("ok", "error", "unset")[number % 3],
                      attrs={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": number,
                             "gen_ai.request.model": f"m{number % 3}", "gen_ai.tool.name": "Zz'\"\\",
                             "gen_ai.conversation.id": ("ä", "a", "A", "_")[number % 4]})
                for number in range(first, first + 100)] for first in range(0, 400, 100)]
    for batch in batches:
        for daemon in both:
            assert counts(http.post(daemon.port, "/v1/ingest", native(batch))) == (100, 0, 0)
    for query in ("", "&session=A", "&session=%C3%A4", "&status=error", "&model=m1",
                  "&tool=Zz'%22%5C", f"&from={NOW - 20 * 10**6}", f"&to={NOW - 20 * 10**6}",
                  "&min_ms=0"):
        for name in ("traces", "sessions"):
            lite, pg = (list(pages(daemon, name, query)) for daemon in both)
            assert lite == pg, (name, query)


def test_new_ids_are_not_needed(both):
    """Ids of nothing but ff, and of one bit."""
    for trace_id, span_id in (("f" * 32, "f" * 16), (f"{1:032x}", f"{1:016x}"),
                              (new_trace_id(), new_span_id())):
        body = native([event(trace_id=trace_id, span_id=span_id, start_ns=NOW, end_ns=NOW)])
        replies = [http.post(daemon.port, "/v1/ingest", body) for daemon in both]
        assert {counts(reply) for reply in replies} == {(1, 0, 0)}
    assert everything(both[0]) == everything(both[1])
