# SPDX-License-Identifier: MIT
"""Conditions in `where` find the rows that they say, in every store the same; what is none is refused
with the place. The same cases are asked of rows in memory by tests/unit/expr_test.c."""
import json
import pathlib
import urllib.parse

import pytest

from lib import http

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "where"


def cases():
    for line in (DATA / "cases.txt").read_text().splitlines():
        if not line.startswith("#"):
            yield tuple(part.strip() for part in line.split("|", 2))


@pytest.fixture
def daemon(any_site):
    the_daemon = any_site.daemon()
    for file in ("prod.json", "test.json"):
        reply = http.post(the_daemon.port, "/v1/ingest", (DATA / file).read_bytes(),
                          "application/json")
        assert (reply.status, reply.headers["mcpd-rejected"]) == (200, "0"), reply
    return the_daemon


def ask(daemon, path, **parameters):
    return http.get(daemon.port, f"{path}?{urllib.parse.urlencode(parameters)}")


def found(daemon, path, **parameters):
    reply = ask(daemon, path, **parameters)
    assert reply.status == 200, (parameters, reply)
    answer = json.loads(reply.body)
    name = "event_name" if path == "/v1/logs" else "name"
    return sorted(row.get(name, "-") for row in answer[path.rsplit("/", 1)[1]])


def test_every_case_finds_its_rows(daemon):
    count = 0
    for kind, expected, condition in cases():
        rows = found(daemon, f"/v1/{kind}", where=condition)
        assert rows == sorted(expected.split()), condition
        count += 1
    assert count > 100


def test_condition_joins_filters_pages_and_times(daemon):
    assert found(daemon, "/v1/traces", where='errors = 0', status="ok", tool="none") == []
    assert found(daemon, "/v1/traces", where='errors = 0', model="m-large") == ["t3"]
    assert found(daemon, "/v1/traces", where='name ^= "t"',
                 **{"from": "2026-01-02T03:04:05Z"}) == ["t1", "t2"]
    names, cursor = [], {}
    while True:
        reply = ask(daemon, "/v1/traces", where='name ^= "t" and model ^= "m"', limit=1, **cursor)
        answer = json.loads(reply.body)
        names += [trace["name"] for trace in answer["traces"]]
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert names == ["t2", "t1", "t3"]


def test_other_lists_take_conditions_too(daemon):
    sessions = json.loads(ask(daemon, "/v1/sessions", where="errors > 0").body)["sessions"]
    assert [one["session"] for one in sessions] == ["conv-1"]
    of_session = json.loads(ask(daemon, "/v1/sessions/conv-1", where="errors = 0").body)
    assert of_session["traces"] == []


@pytest.mark.parametrize("condition, reason", [
    ("duration > 20", "where: at character 12: expected a duration, as 150ms, 20s or 2h, not 20"),
    ("nam = 1", "where: at character 1: traces have no name nam, but trace_id, start_ns"),
    ("", "where: at character 1: expected a name, not or (, not the end"),
    ("name = \"a\"; drop table traces", "where: at character 11: nothing begins with this"),
])
def test_what_is_no_condition_is_refused_with_the_place(daemon, condition, reason):
    reply = ask(daemon, "/v1/traces", where=condition)
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (400, "bad_parameter")
    assert error["message"].startswith(reason), error
    assert len(found(daemon, "/v1/traces")) == 4
