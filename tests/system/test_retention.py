# SPDX-License-Identifier: MIT
"""Retention: what a project keeps no longer is deleted, of every kind and of no other project; what is
too old already is not taken."""
import json
import time

from lib import http, settings
from lib.settings import key
from lib.store import Store
from lib.telemetry import new_span_id, new_trace_id
from lib.wait import wait_until

DAY_NS = 86400 * 10**9
TABLES = ("spans", "traces", "logs", "metrics", "scores", "runs")
KEYS = [key("shop", "ad", "shop"), key("lab", "ad", "lab")]


def events(age_days):
    """One of every kind, so many days old."""
    then = time.time_ns() - int(age_days * DAY_NS)
    trace = new_trace_id()
    return [
        {"type": "span", "trace_id": trace, "span_id": new_span_id(), "name": "chat m",
         "kind": "client", "start_ns": then, "end_ns": then + 1000},
        {"type": "log", "ts_ns": then, "severity": "warn", "body": "x"},
        {"type": "metric", "ts_ns": then, "name": "depth", "kind": "gauge", "value": 4},
        {"type": "score", "id": new_span_id(), "name": "good", "value": 1, "data_type": "number",
         "trace_id": trace, "ts_ns": then},
        {"type": "run", "id": new_span_id(), "state": "done", "start_ns": then, "end_ns": then + 1},
    ]


def send(daemon, secret, batch):
    return http.post(daemon.port, "/v1/ingest", json.dumps({"schema": 1, "events": batch}).encode(),
                     headers={"x-mcpd-key": secret})


def rows(daemon, project):
    """How many rows of each table the project has."""
    return {table: daemon.store().query(f"select count(*) from {table} where project ="
                                      f" (select id from projects where name = '{project}')")[0][0]
            for table in TABLES}


def age_runs(daemon, days):
    """A run's age is when it was last heard of, which is now."""
    daemon.store().execute(f"update runs set seen_ns = seen_ns - {days * DAY_NS}")


def wait_applied(daemon, path):
    """Until the settings of this file were in force for a whole pass."""
    wait_until(lambda: settings.digest(path) in daemon.log(), 30, daemon.log)
    count = 'mcpd_pass_seconds_count{step="forget"}'
    seen = daemon.metrics()[count]
    wait_until(lambda: daemon.metrics()[count] >= seen + 2, 30, daemon.log)


def test_what_a_project_keeps_no_longer_is_deleted(any_site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=KEYS)
    daemon = any_site.daemon(config=path, pass_interval="1s")
    for secret in ("shop", "lab"):
        for _ in range(3):
            assert send(daemon, secret, events(age_days=5)).status == 200
    age_runs(daemon, 5)
    assert send(daemon, "shop", events(age_days=0)).status == 200
    all_old, with_new = dict.fromkeys(TABLES, 3), dict.fromkeys(TABLES, 4)
    assert (rows(daemon, "shop"), rows(daemon, "lab")) == (with_new, all_old)
    settings.write(path, keys=KEYS, projects={"shop": {"retention": "3d"},
                                              "lab": {"retention": "30d"}})
    only_new = dict.fromkeys(TABLES, 1)
    wait_until(lambda: rows(daemon, "shop") == only_new, 30, lambda: f"{rows(daemon, 'shop')}")
    assert rows(daemon, "lab") == all_old


def test_many_rows_are_deleted_in_pieces(any_site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=KEYS)
    daemon = any_site.daemon(config=path, pass_interval="1s")
    spans = [events(age_days=5)[0] for _ in range(5000)]
    assert send(daemon, "shop", spans).status == 200
    settings.write(path, keys=KEYS, projects={"shop": {"retention": "1d"}})
    wait_until(lambda: rows(daemon, "shop") == dict.fromkeys(TABLES, 0), 60,
               lambda: f"{rows(daemon, 'shop')}")
    assert send(daemon, "shop", events(age_days=0)).status == 200


def test_what_is_too_old_to_be_kept_is_rejected(any_site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=KEYS,
                          projects={"shop": {"retention": "3d"}})
    daemon = any_site.daemon(config=path)
    old, young = events(age_days=3.01)[:3], events(age_days=2.99)[:3]
    reply = send(daemon, "shop", old + young)
    assert reply.status == 200
    answer = json.loads(reply.body)
    assert (answer["accepted"], answer["rejected"]) == (3, 3)
    assert [(one["index"], one["code"]) for one in answer["errors"]] == [
        (index, "out_of_range") for index in range(3)]
    assert "older than what is kept" in answer["errors"][0]["message"]
    assert send(daemon, "shop", old).status == 400
    assert send(daemon, "lab", old).status == 200


def test_postgres_drops_a_day_that_no_project_keeps(site, postgres, tmp_path):
    def days():
        return {row[0] for row in postgres.query(
            "select inhrelid::regclass::text from pg_inherits where inhparent = 'spans'::regclass")}
    path = settings.write(tmp_path / "mcpd.yaml", keys=KEYS)
    daemon = site.daemon(config=path, store=postgres.url, pass_interval="1s")
    daemon.database = postgres
    batch = events(age_days=5)
    old = {f"spans_{batch[0]['start_ns'] // DAY_NS}"}
    assert send(daemon, "shop", batch).status == 200
    assert old <= days()
    # A project of which the store has nothing yet, but that a key names, may keep everything.
    settings.write(path, keys=KEYS, projects={"shop": {"retention": "3d"}})
    wait_until(lambda: rows(daemon, "shop")["spans"] == 0, 30, daemon.log)
    assert old <= days()
    assert send(daemon, "lab", batch).status == 200
    settings.write(path, keys=KEYS[::-1], projects={"shop": {"retention": "1d"}})
    wait_applied(daemon, path)
    assert (rows(daemon, "lab")["spans"], old & days()) == (1, old)
    settings.write(path, keys=KEYS, projects={"shop": {"retention": "1d"},
                                              "lab": {"retention": "3d"}})
    wait_until(lambda: rows(daemon, "lab")["spans"] == 0 and not old & days(), 30,
               lambda: f"{days()}\n{daemon.log()}")
    # The day may come back: somebody keeps more from now on.
    settings.write(path, keys=KEYS)
    wait_until(lambda: send(daemon, "shop", events(age_days=5)).status == 200, 30, daemon.log)


def test_runs_of_a_store_of_their_own_are_deleted_there(site, postgres, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=KEYS)
    daemon = site.daemon(config=path, store=postgres.url, runs_data="embedded", data="runs.db",
                         pass_interval="1s")
    assert send(daemon, "shop", events(age_days=0)).status == 200
    runs = Store(daemon.data)
    runs.execute(f"update runs set seen_ns = seen_ns - {9 * DAY_NS}")
    assert runs.query("select count(*) from runs") == [(1,)]
    settings.write(path, keys=KEYS, projects={"shop": {"retention": "3d"}})
    wait_until(lambda: runs.query("select count(*) from runs") == [(0,)], 30, daemon.log)
    assert postgres.query("select count(*) from spans")[0][0] == 1
