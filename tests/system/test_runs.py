# SPDX-License-Identifier: MIT
"""Where runs are kept (--runs-data): with everything else, in a store of their own, or nowhere."""
import json
import time

import pytest

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


@pytest.fixture(params=["one Postgres", "embedded beside Postgres", "Postgres beside SQLite",
                        "two Postgres", "one Postgres under two names"])
def places(request, postgres, postgres_server):
    """The options of a daemon."""
    other = postgres_server.new_database()
    yield {
        "one Postgres": {"store": postgres.url, "runs_data": postgres.url},
        "embedded beside Postgres": {"store": postgres.url, "runs_data": "embedded"},
        "Postgres beside SQLite": {"runs_data": postgres.url},
        "two Postgres": {"store": postgres.url, "runs_data": other.url},
        "one Postgres under two names": {"store": postgres.url,
                                         "runs_data": postgres.url + "?application_name=runs"},
    }[request.param]
    other.drop()


def test_runs_and_the_rest_are_stored_once_wherever_they_are(site, places):
    daemon = site.daemon(**places).wait_ready()
    events = [span(), run(), {"type": "nonsense"}, span()]
    assert send(daemon, *events, key="k1") == (200, (3, 0, 1))
    assert send(daemon, *events, key="k1") == (200, (0, 3, 1))
    assert send(daemon, run("done", end_ns=time.time_ns()), key="k2") == (200, (1, 0, 0))
    daemon.kill9()
    daemon.start().wait_ready()
    assert send(daemon, *events, key="k1") == (200, (0, 3, 1))
    assert send(daemon, run("late"), key="k3") == (200, (0, 1, 0))
    assert [row["state"] for row in rows(daemon, "runs")] == ["done"]
    assert len(rows(daemon, "traces")) == 2
    assert [row["code"] for row in rows(daemon, "rejects")] == ["bad_type"]


def test_without_a_place_for_runs_they_are_rejected(site):
    daemon = site.daemon(runs_data="off")
    assert send(daemon, span(), run(), key="k1") == (200, (1, 0, 1))
    assert send(daemon, run(), key="k2") == (400, (0, 0, 1))
    assert rows(daemon, "runs") == []


def test_runs_away_refuse_only_what_has_runs(site, postgres, postgres_server):
    """... as a whole: what is sent again is stored once."""
    daemon = site.daemon(runs_data=postgres.url).wait_ready()
    events = [span(), run()]
    postgres_server.pause()
    try:
        assert http.post(daemon.port, "/v1/ingest",
                         json.dumps({"schema": 1, "events": events}).encode(),
                         headers={"Idempotency-Key": "k1"}, timeout=60).status == 503
        assert send(daemon, span(), key="k2") == (200, (1, 0, 0))
        assert daemon.readyz() == (503, "store of runs unavailable")
    finally:
        postgres_server.resume()
    daemon.wait_ready()
    status, counts = send(daemon, *events, key="k1")
    assert status == 200 and counts in ((2, 0, 0), (1, 1, 0))  # the run may have been stored
    assert send(daemon, *events, key="k1") == (200, (0, 2, 0))
    assert len(rows(daemon, "runs")) == 1 and len(rows(daemon, "traces")) == 2


def test_what_is_no_place_is_refused(site):
    result = run_once("daemon", "--runs-data", "sqlite://password", cwd=site.folder)
    assert result.returncode == 2
    assert "--runs-data: embedded, a postgres:// URL or off is wanted" in result.stderr
    assert "password" not in result.stderr
