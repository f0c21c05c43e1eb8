# SPDX-License-Identifier: MIT
"""Where runs are kept (--runs-data): with everything else, in a store of their own, or nowhere."""
import json
import time

from lib import http
from lib.process import run_once
from lib.telemetry import new_span_id, new_trace_id


def span():
    now = time.time_ns()
    return {"type": "span", "trace_id": new_trace_id(), "span_id": new_span_id(), "name": "chat m",
            "kind": "client", "start_ns": now, "end_ns": now + 1000}


def send(daemon, *events, key):
    reply = http.post(daemon.port, "/v1/ingest", json.dumps({"schema": 1, "events": events}).encode(),
                      headers={"Idempotency-Key": key})
    return reply.status, tuple(int(reply.headers["mcpd-" + name])
                               for name in ("accepted", "duplicate", "rejected"))


def rows(daemon, name):
    reply = http.get(daemon.port, f"/v1/{name}")
    assert reply.status == 200, reply
    return json.loads(reply.body)[name]


def run(state="running", **members):
    return {"type": "run", "id": "r1", "state": state, **members}


def test_without_a_place_for_runs_they_are_rejected(site):
    daemon = site.daemon(runs_data="off")
    assert send(daemon, span(), run(), key="k1") == (200, (1, 0, 1))
    assert send(daemon, run(), key="k2") == (400, (0, 0, 1))
    assert rows(daemon, "runs") == []


def test_what_is_no_place_is_refused(site):
    result = run_once("daemon", "--runs-data", "sqlite://password", cwd=site.folder)
    assert result.returncode == 2
    assert "--runs-data: embedded, a postgres:// URL or off is wanted" in result.stderr
    assert "password" not in result.stderr
