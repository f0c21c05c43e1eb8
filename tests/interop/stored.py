# SPDX-License-Identifier: MIT
"""What a daemon gives back over its read API, as items of the form that sdk-sender prints."""
import json

from lib import http

KINDS = {"unspecified": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
STATUSES = {"unset": 0, "ok": 1, "error": 2}


def read(daemon, path, key=None):
    reply = http.get(daemon.port, path, headers={"Authorization": f"Bearer {key}"} if key else {})
    assert reply.status == 200, (path, reply)
    return json.loads(reply.body)


def pages(daemon, path, rows, key=None, limit=100):
    """Every row of a list, page by page to the end of the cursors."""
    cursor = ""
    while cursor is not None:
        page = read(daemon, f"{path}?limit={limit}{cursor}", key)
        yield from page[rows]
        following = page.get("next_cursor")
        cursor = f"&cursor={following}" if following else None


def span_item(span):
    return {"is": "span", "trace_id": span["trace_id"], "span_id": span["span_id"],
            "parent_id": span.get("parent_id", ""), "name": span["name"],
            "kind": KINDS[span["kind"]], "status": STATUSES[span["status"]],
            "start_ns": span["start_ns"], "end_ns": span["end_ns"],
            "message": span.get("status_message", ""), "attributes": span.get("attributes", {}),
            "events": [{"attributes": {}, **event} for event in span.get("events", [])],
            "links": [{"trace_id": link["trace_id"], "span_id": link["span_id"],
                       "attributes": link.get("attributes", {})} for link in span.get("links", [])],
            "resource": span.get("resource", {}), "scope": span.get("scope", {}).get("name", "")}


def stored_traces(daemon, key=None):
    """{trace id: its row of the list, with "spans"}"""
    traces = {}
    for row in pages(daemon, "/v1/traces", "traces", key):
        assert row["trace_id"] not in traces, f"listed twice: {row}"
        traces[row["trace_id"]] = {**row, **read(daemon, f"/v1/traces/{row['trace_id']}", key)}
    return traces


def stored_spans(daemon, key=None):
    """Every span of every trace; the sums beside a trace must be those of its spans."""
    items = []
    for trace in stored_traces(daemon, key).values():
        spans = trace["spans"]
        assert trace["span_count"] == len(spans), trace
        for sum_, tokens in (("in_tok", "in_tok"), ("out_tok", "out_tok")):
            assert trace[sum_] == sum(span.get(tokens, 0) or 0 for span in spans), trace
        items += [span_item(span) for span in spans]
    return items


TEMPORALITIES = {"unspecified": 0, "delta": 1, "cumulative": 2}


def _number(value, names):
    """A name or a number of an enumeration as its number."""
    return names.get(value, value)


def log_item(row):
    return {"is": "log", "ts_ns": row["ts_ns"], "observed_ns": row["observed_ns"],
            "severity": row["severity"], "severity_text": row.get("severity_text", ""),
            "event": row.get("event_name", ""), "body": row["body"],
            "trace_id": row.get("trace_id", ""), "span_id": row.get("span_id", ""),
            "attributes": row.get("attributes", {}), "resource": row.get("resource", {}),
            "scope": row.get("scope", {}).get("name", "")}


def point_item(row):
    """A histogram's sum stands as its value, its buckets in data."""
    item = {"is": "point", "type": row["kind"], "name": row["name"], "unit": row.get("unit", ""),
            "ts_ns": row["ts_ns"], "attributes": row.get("attributes", {}),
            "resource": row.get("resource", {}), "scope": row.get("scope", {}).get("name", "")}
    if row["kind"] == "histogram":
        item.update(sum=row["value"], count=row["count"], buckets=row["data"]["counts"],
                    bounds=row["data"]["bounds"])
    else:
        item["value"] = row["value"]
    if row["kind"] != "gauge":
        item.update(start_ns=row["start_ns"],
                    temporality=_number(row["temporality"], TEMPORALITIES))
    if row["kind"] == "sum":
        item["monotonic"] = bool(row["is_monotonic"])
    return item


def stored_logs(daemon, key=None):
    return [log_item(row) for row in pages(daemon, "/v1/logs", "logs", key)]


def stored_points(daemon, key=None):
    return [point_item(row) for row in pages(daemon, "/v1/metrics", "metrics", key)]
