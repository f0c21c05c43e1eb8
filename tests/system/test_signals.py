# SPDX-License-Identifier: MIT
"""The daemon's other signals: logs, metrics, scores and runs come back item by item, are stored once,
and what was rejected can be looked up."""
import base64
import json
import pathlib
import time
import zlib

import msgpack
import pytest

from lib import http
from lib.client import counts, read
from lib.telemetry import (mixed, new_span_id, new_trace_id, otlp_request, pb_bytes, pb_span,
                           pb_traces)

SDK = pathlib.Path(__file__).resolve().parents[1] / "data" / "otlp"
PROTOBUF, JSON, MSGPACK = "application/x-protobuf", "application/json", "application/msgpack"
FORMS = {"protobuf": (".pb", PROTOBUF), "json": (".json", JSON)}


def plain_value(value):
    """An OTLP JSON AnyValue as the daemon gives it back."""
    if not value:
        return None
    (kind, content), = value.items()
    if kind == "intValue":
        return int(content)
    if kind == "bytesValue":
        return {"bytes": content}
    if kind == "arrayValue":
        return [plain_value(one) for one in content["values"]]
    if kind == "kvlistValue":
        return plain_map(content["values"])
    return content


def plain_map(attributes):
    return {one["key"]: plain_value(one["value"]) for one in attributes}


def post_twice(daemon, path, body, content_type, expected, headers=()):
    """The same bytes twice: first new, then known by their key."""
    first = http.post(daemon.port, path, body, content_type, headers)
    assert (first.status, counts(first)) == (200, (expected, 0, 0))
    again = http.post(daemon.port, path, body, content_type, headers)
    assert (again.status, counts(again)) == (200, (0, expected, 0))
    return first


@pytest.mark.parametrize("form", FORMS)
def test_sdk_logs_come_back_item_by_item(any_site, form):
    suffix, content_type = FORMS[form]
    daemon = any_site.daemon()
    post_twice(daemon, "/v1/logs", (SDK / f"sdk-logs{suffix}").read_bytes(), content_type, 5)
    sent = json.loads((SDK / "sdk-logs.json").read_text())["resourceLogs"][0]
    records = {int(r["timeUnixNano"]): r for r in sent["scopeLogs"][0]["logRecords"]}
    stored = read(daemon, "/v1/logs")["logs"]
    assert [log["ts_ns"] for log in stored] == sorted(records, reverse=True)
    for log in stored:
        record = records[log["ts_ns"]]
        assert log["body"] == plain_value(record["body"])
        assert log["attributes"] == plain_map(record["attributes"])
        assert log["resource"] == plain_map(sent["resource"]["attributes"])
        assert log["scope"] == {"name": "agents.orders"}
        assert log["observed_ns"] == int(record["observedTimeUnixNano"])
        assert (log["severity"], log["severity_text"]) == (13, "WARN")
        assert (log["service"], log["env"]) == ("order-agent", "prod")


@pytest.mark.parametrize("form", FORMS)
def test_sdk_metrics_come_back_item_by_item(any_site, form):
    suffix, content_type = FORMS[form]
    daemon = any_site.daemon()
    post_twice(daemon, "/v1/metrics", (SDK / f"sdk-metrics{suffix}").read_bytes(), content_type, 4)
    stored = {m["name"]: m for m in read(daemon, "/v1/metrics")["metrics"]}
    usage = stored["gen_ai.client.token.usage"]
    assert (usage["kind"], usage["value"], usage["temporality"]) == ("sum", 1225, "cumulative")
    assert usage["is_monotonic"] == 1 and isinstance(usage["value"], int)
    assert stored["sessions"]["is_monotonic"] == 0
    assert (stored["queue.depth"]["kind"], stored["queue.depth"]["value"]) == ("gauge", 17.5)
    duration = stored["gen_ai.client.operation.duration"]
    assert (duration["kind"], duration["count"]) == ("histogram", 50)
    assert duration["value"] == 175.00000000000003
    assert duration["data"]["counts"] == [1, 35, 14] + [0] * 13
    assert duration["data"]["bounds"][:3] == [0, 5, 10] and duration["data"]["max"] == 7
    assert duration["start_ns"] == 1795994947415481636
    assert all(m["resource"]["service.version"] == "2.3.1" for m in stored.values())
    assert len(read(daemon, "/v1/metrics?name=queue.depth")["metrics"]) == 1


def native_events():
    now, trace_id, span_id = time.time_ns(), new_trace_id(), new_span_id()
    return [
        {"type": "span", "trace_id": trace_id, "span_id": span_id, "name": "chat m",
         "kind": "client", "start_ns": now, "end_ns": now + 5, "attrs": {"a": 1}},
        {"type": "score", "id": "s1", "name": "helpful", "value": 0.8, "data_type": "number",
         "trace_id": trace_id, "span_id": span_id, "source": "human", "comment": "good"},
        {"type": "score", "name": "topic", "value": "refund", "data_type": "label",
         "session_id": "conv-1"},
        {"type": "log", "ts_ns": now, "severity": "warn", "body": "text", "trace_id": trace_id,
         "attrs": {"k": "v"}},
        {"type": "metric", "ts_ns": now, "name": "queue.depth", "kind": "gauge", "value": 4,
         "unit": "1", "attrs": {}},
        {"type": "run", "id": "r1", "state": "running", "trace_id": trace_id, "start_ns": now},
    ]


def check_native_events(daemon, events):
    trace_id = events[0]["trace_id"]
    assert read(daemon, "/v1/traces/" + trace_id)["spans"][0]["attributes"] == {"a": 1}
    number, = read(daemon, "/v1/scores?trace_id=" + trace_id)["scores"]
    assert (number["id"], number["value"], number["data_type"]) == ("s1", 0.8, "number")
    assert (number["span_id"], number["source"]) == (events[0]["span_id"], "human")
    assert number["comment"] == "good"
    label, = read(daemon, "/v1/scores?session=conv-1")["scores"]
    assert (label["name"], label["value"], label["data_type"]) == ("topic", "refund", "label")
    log, = read(daemon, "/v1/logs?min_severity=13&trace_id=" + trace_id)["logs"]
    assert (log["body"], log["severity"], log["attributes"]) == ("text", 13, {"k": "v"})
    assert read(daemon, "/v1/logs?min_severity=14")["logs"] == []
    metric, = read(daemon, "/v1/metrics")["metrics"]
    assert (metric["name"], metric["value"], metric["unit"]) == ("queue.depth", 4, "1")
    run, = read(daemon, "/v1/runs")["runs"]
    assert (run["id"], run["state"], run["trace_id"]) == ("r1", "running", trace_id)


def test_native_events_of_all_types(any_site):
    daemon, events = any_site.daemon(), native_events()
    post_twice(daemon, "/v1/ingest", json.dumps({"schema": 1, "events": events}).encode(), JSON, 6)
    check_native_events(daemon, events)


def test_native_events_in_msgpack(any_site):
    daemon, events = any_site.daemon(), native_events()
    body = msgpack.packb({"schema": 1, "events": [
        {**e, **{k: bytes.fromhex(e[k]) for k in ("trace_id", "span_id") if k in e}}
        for e in events]})
    post_twice(daemon, "/v1/ingest", body, MSGPACK, 6)
    check_native_events(daemon, events)


def test_identity_alone_stops_a_resend_of_every_type(any_site):
    """Logs and metrics by key and index, scores by id or content, runs by id and state."""
    daemon, events = any_site.daemon(), native_events()
    body = json.dumps({"schema": 1, "events": events}).encode()
    assert counts(http.post(daemon.port, "/v1/ingest", body)) == (6, 0, 0)
    assert daemon.store().forget_keys() == 1
    assert counts(http.post(daemon.port, "/v1/ingest", body)) == (0, 6, 0)
    # Another key: the score without an id is known by what it says of what.
    again = json.dumps({"schema": 1, "events": events[1:3]}).encode()
    assert counts(http.post(daemon.port, "/v1/ingest", again)) == (0, 2, 0)


def test_run_changes_until_it_has_ended(any_site):
    daemon, now = any_site.daemon(), time.time_ns()

    def post(**members):
        body = json.dumps({"schema": 1, "events": [{"type": "run", "id": "r", **members}]})
        return counts(http.post(daemon.port, "/v1/ingest", body.encode()))

    assert post(state="running", start_ns=now) == (1, 0, 0)
    assert post(state="running", start_ns=now, attrs={}) == (0, 1, 0)
    assert post(state="waiting") == (1, 0, 0)
    assert post(state="done", end_ns=now + 5) == (1, 0, 0)
    assert post(state="running", agent="late") == (0, 1, 0)
    run, = read(daemon, "/v1/runs")["runs"]
    assert (run["state"], run["start_ns"], run["end_ns"]) == ("done", now, now + 5)


def test_evaluation_of_a_span_is_a_score_too(any_site):
    """The event in which OpenTelemetry tells of an evaluation: stored as it is and as a score, once,
    counted as the one span that was sent."""
    daemon, now = any_site.daemon(), time.time_ns()
    span = {"type": "span", "trace_id": new_trace_id(), "span_id": new_span_id(), "name": "chat m",
            "kind": "client", "start_ns": now, "end_ns": now + 5, "events": [
                {"ts_ns": now, "name": "gen_ai.evaluation.result", "attrs": {
                    "gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.value": 0.9,
                    "gen_ai.evaluation.explanation": "to the point"}}]}
    body = json.dumps({"schema": 1, "events": [span]}).encode()
    post_twice(daemon, "/v1/ingest", body, JSON, 1)
    daemon.store().forget_keys()
    assert counts(http.post(daemon.port, "/v1/ingest", body)) == (0, 1, 0)
    score, = read(daemon, "/v1/scores")["scores"]
    assert (score["name"], score["value"], score["source"]) == ("relevance", 0.9, "otel")
    assert (score["trace_id"], score["span_id"]) == (span["trace_id"], span["span_id"])
    stored, = read(daemon, "/v1/traces/" + span["trace_id"])["spans"]
    assert stored["events"][0]["name"] == "gen_ai.evaluation.result"


def test_sessions_are_sums_over_traces(any_site):
    daemon = any_site.daemon()
    for request in mixed(10):
        assert http.request(daemon.port, "POST", request.path, request.body,
                            request.all_headers()).status == 200
    sessions = read(daemon, "/v1/sessions")["sessions"]
    assert sorted(s["session"] for s in sessions) == ["conv-0", "conv-1"]
    assert all((s["trace_count"], s["span_count"]) == (5, 15) for s in sessions)
    assert sum(s["in_tok"] for s in sessions) == sum(100 + n for n in range(10))
    assert [s["start_ns"] for s in sessions] == sorted((s["start_ns"] for s in sessions),
                                                      reverse=True)
    one, = read(daemon, "/v1/sessions?session=conv-1")["sessions"]
    assert one["session"] == "conv-1"


def test_one_session_with_its_traces(any_site):
    daemon, now = any_site.daemon(), time.time_ns()
    for session, traces in (("a+b&c=d/e", 3), ("other", 1)):
        events = [{"type": "span", "trace_id": new_trace_id(), "span_id": new_span_id(), "name": "n",
                   "start_ns": now + i, "end_ns": now + i + 1,
                   "attrs": {"session.id": session}} for i in range(traces)]
        body = json.dumps({"schema": 1, "events": events}).encode()
        assert counts(http.post(daemon.port, "/v1/ingest", body)) == (traces, 0, 0)
    path = "/v1/sessions/" + "a+b&c=d/e"
    seen = read(daemon, path)
    assert (seen["session"], seen["trace_count"], seen["span_count"]) == ("a+b&c=d/e", 3, 3)
    assert [trace["start_ns"] for trace in seen["traces"]] == [now + 2, now + 1, now]
    first = read(daemon, path + "?limit=2")
    rest = read(daemon, f"{path}?limit=2&cursor={first['next_cursor']}")
    assert first["traces"] + rest["traces"] == seen["traces"] and rest["trace_count"] == 3
    for path, status in (("/v1/sessions/none", 404), ("/v1/sessions/", 400),
                         ("/v1/sessions/other?session=x", 400), ("/v1/sessions/a%20b", 404)):
        reply = http.get(daemon.port, path)
        assert reply.status == status and json.loads(reply.body)["error"]["message"], path


def test_rejects_can_be_looked_up(any_site):
    daemon = any_site.daemon()
    events = native_events()[:1] + [{"type": "score", "id": f"bad{i}"} for i in range(60)]
    reply = http.post(daemon.port, "/v1/ingest", json.dumps({"schema": 1, "events": events}).encode())
    assert counts(reply) == (1, 0, 60)
    seen, path = [], "/v1/rejects?limit=25"
    while path:
        page = read(daemon, path)
        seen += [(reject["index"], reject["id"]) for reject in page["rejects"]]
        cursor = page.get("next_cursor")
        path = cursor and f"/v1/rejects?limit=25&cursor={cursor}"
    assert seen == [(i + 1, f"bad{i}") for i in reversed(range(60))]
    assert page["rejects"][-1]["message"]


def test_rejects_keep_the_event(any_site):
    """As it was sent, or in a form that the row names; cut, with its length; all of a batch."""
    daemon = any_site.daemon()
    good = native_events()[0]
    wrong = '{"type":"score",  "id":"w", "value":1e1}'
    large = {"type": "log", "id": "l", "body": "x" * 100_000, "attrs": {}}
    body = '{"schema":1,"events":[%s,%s,%s,7]}' % (json.dumps(good), wrong, json.dumps(large))
    assert counts(http.post(daemon.port, "/v1/ingest", body.encode())) == (1, 0, 3)
    number, cut, first = read(daemon, "/v1/rejects")["rejects"]
    assert (first["event"], first["event_form"]) == (wrong, "json")
    assert first["event_bytes"] == len(wrong) and number["event"] == "7"
    assert cut["event_bytes"] == len(json.dumps(large))
    assert cut["event"] == json.dumps(large)[:64 * 1024]

    packed = msgpack.packb({"schema": 1, "events": [good | {"id": "m", "name": "x"},
                                                    {"type": "score", "id": "p", "value": b"\0"}]})
    assert counts(http.post(daemon.port, "/v1/ingest", packed, MSGPACK))[2] == 1
    row = read(daemon, "/v1/rejects")["rejects"][0]
    assert json.loads(row["event"]) == {"type": "score", "id": "p", "value": {"bytes": "AA=="}}

    now = time.time_ns()
    bad = pb_span("00" * 16, new_span_id(), None, "bad", 1, now, now, {})
    spans = [pb_span(new_trace_id(), new_span_id(), None, "n", 1, now, now, {})] + [bad] * 1200
    assert counts(http.post(daemon.port, "/v1/traces", pb_traces(spans, {}), PROTOBUF)) == (1, 0, 1200)
    row = read(daemon, "/v1/rejects?limit=1")["rejects"][0]
    assert (row["index"], row["event_form"], row["event_bytes"]) == (1000, "protobuf", len(bad))
    assert base64.b64decode(row["event"]) == bad

    document = json.loads((SDK / "sdk-traces.json").read_text())
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["spanId"] = "zz"
    sent = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert counts(http.post(daemon.port, "/v1/traces", json.dumps(document).encode()))[2] == 1
    assert read(daemon, "/v1/rejects")["rejects"][0]["event"] == json.dumps(sent)


@pytest.mark.parametrize("kind, path", [("logs", "/v1/logs"), ("metrics", "/v1/metrics")])
def test_lists_in_pages_lose_nothing(any_site, kind, path):
    """Many rows of the same moment: the cursor goes on by key."""
    daemon, now = any_site.daemon(), time.time_ns()
    events = [{"type": kind[:-1], "ts_ns": now + i // 40, "body": str(i), "name": str(i),
               "kind": "gauge", "value": i} for i in range(120)]
    post_twice(daemon, "/v1/ingest", json.dumps({"schema": 1, "events": events}).encode(), JSON, 120)
    member = "body" if kind == "logs" else "name"
    seen, query = [], "?limit=33"
    while query:
        page = read(daemon, path + query)
        seen += [int(row[member]) for row in page[kind]]
        query = page.get("next_cursor") and f"?limit=33&cursor={page['next_cursor']}"
    assert seen == list(reversed(range(120)))


def test_encodings(any_site):
    daemon = any_site.daemon()
    for encoding, pack in (("deflate", zlib.compress), ("identity", bytes), ("zstd", zstd_raw)):
        request = otlp_request(1)
        reply = http.post(daemon.port, "/v1/traces", pack(request.body), PROTOBUF,
                          {"Content-Encoding": encoding})
        assert (reply.status, counts(reply)) == (200, (3, 0, 0)), encoding


def zstd_raw(data):
    """A zstd frame of raw blocks, by RFC 8878: no packer is needed to say it."""
    assert len(data) < 1 << 17
    frame = b"\x28\xb5\x2f\xfd" + bytes([0xA0]) + len(data).to_bytes(4, "little")
    return frame + (len(data) << 3 | 1).to_bytes(3, "little") + data


BAD = {
    "logs: no protobuf": ("/v1/logs", b"\xff\xff", PROTOBUF, 400),
    "logs: no json": ("/v1/logs", b"{", JSON, 400),
    "logs: 100,000 deep": ("/v1/logs", b"[" * 100000, JSON, 400),
    "metrics: no json": ("/v1/metrics", b"[]", JSON, 400),
    "metrics: as text": ("/v1/metrics", b"x", "text/plain", 415),
    "msgpack cut short": ("/v1/ingest", b"\x82\xa6schema\x01", MSGPACK, 400),
    "msgpack array of 4 GiB": ("/v1/ingest", b"\xdd\xff\xff\xff\xff", MSGPACK, 400),
    "msgpack 100,000 deep": ("/v1/ingest", b"\x91" * 100000, MSGPACK, 400),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_bodies(site, case):
    path, body, content_type, status = BAD[case]
    daemon = site.daemon()
    reply = http.post(daemon.port, path, body, content_type)
    assert reply.status == status, reply
    assert counts(http.post(daemon.port, "/v1/traces", otlp_request(1).body, PROTOBUF)) == (3, 0, 0)


@pytest.mark.parametrize("form", FORMS)
def test_body_at_the_wrong_path_is_told_the_right_one(site, form):
    """Never a success that stores nothing."""
    daemon = site.daemon()
    suffix, content_type = FORMS[form]
    for kind in ("traces", "logs", "metrics"):
        body = (SDK / f"sdk-{kind}{suffix}").read_bytes()
        for path in {"traces", "logs", "metrics"} - {kind}:
            reply = http.post(daemon.port, "/v1/" + path, body, content_type)
            hint = reply.body.partition(b"meant for ")[2]
            assert reply.status == 400 and b"/v1/" + kind.encode() in hint, (kind, path)
        assert http.post(daemon.port, "/v1/" + kind, body, content_type).status == 200


def test_logs_that_read_as_spans_without_ids(site):
    """A record of a body alone has a span's form; its text would be the name."""
    body = pb_traces([pb_bytes(5, pb_bytes(1, "all is well"))], {})
    reply = http.post(site.daemon().port, "/v1/traces", body, PROTOBUF)
    assert reply.status == 400 and b"/v1/logs" in reply.body


def test_empty_requests_succeed(site):
    daemon = site.daemon()
    for path in ("/v1/traces", "/v1/logs", "/v1/metrics"):
        reply = http.post(daemon.port, path, b"", PROTOBUF)
        assert (reply.status, counts(reply)) == (200, (0, 0, 0)), path
        reply = http.post(daemon.port, path, b"{}", JSON)
        assert (reply.status, reply.body) == (200, b'{"partialSuccess":{}}'), path


def test_unknown_parameters_are_named(site):
    daemon = site.daemon()
    for path in ("/v1/logs?model=x", "/v1/metrics?session=x", "/v1/scores?trace_id=abc",
                 "/v1/logs?min_severity=warn", "/v1/rejects?cursor=00", "/v1/runs?cursor=0102",
                 "/v1/sessions?agent=x"):
        reply = http.get(daemon.port, path)
        assert reply.status == 400, path
        assert path.split("?")[1].split("=")[0] in json.loads(reply.body)["error"]["message"]
