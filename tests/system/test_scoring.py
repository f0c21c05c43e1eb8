# SPDX-License-Identifier: MIT
"""Finished traces are scored by rules and by judges: each that is chosen exactly once, whoever leads,
and a judge that fails costs a score its value, never its truth."""
import collections
import hashlib
import json
import re
import time

import pytest

from lib import http, settings, tls
from lib.lease import Lease
from lib.process import ROOT, run_once
from lib.telemetry import RESOURCE, agent_spans, new_span_id
from lib.upstream import Hang, Reply, Upstream
from lib.wait import wait_until

PASS = "500ms"
SETTLE = {"quiet": "1s", "max_age": "1h"}
LONG = 60.0  # the machine may be busy
RULE = {"name": "no-tool-error", "rule": 'count(op = "execute_tool" and status = "error") = 0'}


def batch(spans, resource=None):
    events = [{**{k: s[k] for k in ("trace_id", "span_id", "parent_id", "name", "kind", "start_ns",
                                    "attrs")},
               **({"end_ns": s["end_ns"]} if s["end_ns"] else {}),
               "type": "span", "status": "error" if s["error"] else "ok"} for s in spans]
    return json.dumps({"resource": resource or RESOURCE, "events": events}).encode()


def send(daemon, spans, resource=None):
    reply = http.post(daemon.port, "/v1/ingest", batch(spans, resource), "application/json")
    assert reply.status == 200, reply
    return reply


def send_traces(daemon, count, resource=None):
    """Traces of three spans; every tenth (0, 10, ...) has a tool that failed. Their ids in order."""
    turns = [agent_spans(number) for number in range(count)]
    send(daemon, [span for turn in turns for span in turn], resource)
    return [turn[0]["trace_id"] for turn in turns]


def scores(daemon, scorer=None):
    """All rows of GET /v1/scores, page by page."""
    rows, cursor = [], ""
    while cursor is not None:
        path = f"/v1/scores?limit=200{cursor}{f'&name={scorer}' if scorer else ''}"
        answer = json.loads(http.get(daemon.port, path).body)
        rows += answer["scores"]
        cursor = f"&cursor={answer['next_cursor']}" if "next_cursor" in answer else None
    return rows


def wait_scores(daemon, count, scorer=None):
    return wait_until(lambda: len(rows := scores(daemon, scorer)) >= count and rows, LONG,
                      lambda: f"{count} scores, {len(scores(daemon, scorer))}; jobs {jobs(daemon)}")


def jobs(daemon):
    """[(scorer, tries, seconds until it is due)]"""
    return daemon.store().query(f"select scorer, tries, due_at - {int(time.time())} from score_jobs")


def wait_tries(daemon, count):
    """The jobs, when one has failed so often."""
    def failed():
        found = jobs(daemon)
        return found if any(tries == count for _, tries, _ in found) else None
    return wait_until(failed, LONG, lambda: f"{count} failed tries, {jobs(daemon)}")


def wait_series(daemon, series, value):
    wait_until(lambda: daemon.metrics().get(series) == value, LONG,
               lambda: f"{series} {value}, {daemon.metrics().get(series)}")


def make_due(daemon):
    # not longer ago than a week, or they would be forgotten
    daemon.store().execute(f"update score_jobs set due_at = {int(time.time()) - 60}")


def wait_no_jobs(daemon):
    wait_until(lambda: not jobs(daemon) and settled(daemon), LONG, lambda: f"no jobs, {jobs(daemon)}")


def settled(daemon):
    return daemon.store().query("select count(*) from traces where state = 'open'") == [(0,)]


def write_settings(site, *scorers, settle=None, name="settings.json"):
    return settings.write(site.folder / name, settle=settle or SETTLE, scorers=list(scorers))


def start(site, *scorers, settle=None, **options):
    file = write_settings(site, *scorers, settle=settle)
    return site.daemon(config=str(file), pass_interval=PASS, **options)


def judge(up, **members):
    """A judge's part of a scorer; no_retry: the first failure is final."""
    return {"url": up.url + "/score", "timeout": "20s", **members}


def answer(value, **members):
    return Reply(200, body=json.dumps({"value": value, **members}).encode())


def asked(up):
    """How often each trace came to the judge."""
    return collections.Counter(json.loads(r.body)["target"]["trace_id"] for r in list(up.requests))


def chosen(scorer, trace_ids, sample):
    """The traces that a sample has, by the arithmetic that docs/scoring.md tells."""
    def place(trace_id):
        digest = hashlib.sha256(scorer.encode() + b"\0" + bytes.fromhex(trace_id)).digest()
        return (int.from_bytes(digest[:7], "big") >> 3) / 2**53
    return {one for one in trace_ids if place(one) < sample}


def test_a_rule_gives_one_or_zero_to_every_trace_once(any_site):
    daemon = start(any_site, RULE,
                   {"name": "quick", "where": 'tool = "lookup_order"', "rule": "max(duration) < 8s"},
                   {"name": "never", "where": 'env = "prod"', "rule": "errors = 0"},
                   {"name": "others", "project": "other", "rule": "errors = 0"})
    traces = send_traces(daemon, 20)
    wait_scores(daemon, 40)
    wait_no_jobs(daemon)
    rows = scores(daemon)
    by_name = {name: {r["trace_id"]: r for r in rows if r["name"] == name}
               for name in ("no-tool-error", "quick", "never", "others")}
    assert len(rows) == 40 and not by_name["never"] and not by_name["others"]
    values = [by_name["no-tool-error"][trace]["value"] for trace in traces]
    assert values == [0 if number % 10 == 0 else 1 for number in range(20)]
    assert {row["value"] for row in by_name["quick"].values()} == {1}
    row = by_name["quick"][traces[0]]
    assert (row["data_type"], row["source"], row["scorer"]) == ("boolean", "rule", "quick")
    assert len(row["version"]) == 12 and "error" not in row
    metrics = daemon.metrics()
    assert metrics['mcpd_scores_total{scorer="no-tool-error",result="stored"}'] == 20
    assert metrics['mcpd_scores_total{scorer="never",result="skipped"}'] == 20


def test_a_judge_is_asked_once_for_a_trace_and_its_answer_is_the_score(any_site, a):
    a.always(answer(0.75, label="good", comment="clear and short"))
    daemon = start(any_site, {"name": "helpful", "version": "v7",
                              "output": {"type": "number", "min": 0, "max": 1},
                              "judge": judge(a, key_env="JUDGE_KEY", parallel=2)},
                   env={"JUDGE_KEY": "judge-secret-1"})
    spans = agent_spans(1)
    spans[0]["attrs"]["gen_ai.input.messages"] = [{"role": "user", "content": "where is it?"}]
    spans[1]["attrs"]["gen_ai.output.messages"] = "on its way"
    send(daemon, spans)
    others = send_traces(daemon, 9)
    rows = wait_scores(daemon, 10)
    wait_no_jobs(daemon)
    assert set(asked(a).values()) == {1} and len(a.requests) == 10 and a.peak <= 2
    assert {r["trace_id"] for r in rows} == {spans[0]["trace_id"], *others}
    row = rows[0]
    assert (row["value"], row["label"], row["comment"]) == (0.75, "good", "clear and short")
    assert (row["source"], row["scorer"], row["version"]) == ("judge", "helpful", "v7")
    request = next(r for r in a.requests if spans[0]["trace_id"].encode() in r.body)
    assert (request.method, request.target) == ("POST", "/score")
    assert request.header("Authorization") == "Bearer judge-secret-1"
    assert request.header("Content-Type") == "application/json"
    body = json.loads(request.body)
    assert body["scorer"] == {"name": "helpful", "version": "v7",
                              "output": {"type": "number", "min": 0, "max": 1}}
    assert body["target"] == {"type": "trace", "project": "default",
                              "trace_id": spans[0]["trace_id"]}
    assert body["input"] == [{"role": "user", "content": "where is it?"}]
    assert body["output"] == "on its way"
    assert [s["span_id"] for s in body["spans"]] == [s["span_id"] for s in spans]
    assert body["spans"][1]["model"] == "m-large" and "spans_omitted" not in body
    assert "judge-secret-1" not in daemon.log()


def test_what_a_judge_is_told_is_bounded(any_site, a):
    a.always(answer(True))
    daemon = start(any_site, {"name": "short", "output": {"type": "boolean"},
                              "judge": judge(a, max_input="4KiB")})
    spans = agent_spans(1)
    spans[0]["attrs"]["gen_ai.input.messages"] = "ü" * 100_000
    spans += [{**spans[2], "span_id": new_span_id()} for _ in range(300)]
    send(daemon, spans)
    wait_scores(daemon, 1)
    request, = a.requests
    body = json.loads(request.body)
    assert len(request.body) < 8192
    assert 0 < len(body["input"]) <= 512 and set(body["input"]) == {"ü"}
    assert len(body["spans"]) + body["spans_omitted"] == len(spans)


def test_a_failed_try_waits_and_the_next_one_counts(any_site, a):
    a.next(Reply(503, body=b"overloaded"))
    a.always(answer(1))
    daemon = start(any_site, {"name": "helpful", "output": {"type": "number"}, "judge": judge(a)})
    send_traces(daemon, 1)
    (_, _, due_in), = wait_tries(daemon, 1)
    assert 0 < due_in <= 11
    assert scores(daemon) == [] and len(a.requests) == 1
    make_due(daemon)
    row, = wait_scores(daemon, 1)
    wait_no_jobs(daemon)
    assert row["value"] == 1 and len(a.requests) == 2
    assert daemon.metrics()['mcpd_scores_total{scorer="helpful",result="retry"}'] == 1


def test_when_all_tries_failed_the_score_says_so_and_has_no_value(any_site, a):
    a.always(Reply(500, body=b"no model"))
    daemon = start(any_site, {"name": "helpful", "output": {"type": "number"},
                              "judge": judge(a, retries=2)})
    trace, = send_traces(daemon, 1)
    for tries, wait in ((1, 10), (2, 60)):
        (_, _, due_in), = wait_tries(daemon, tries)
        assert wait - 10 < due_in <= wait + 1
        make_due(daemon)
    row, = wait_scores(daemon, 1)
    wait_no_jobs(daemon)
    assert row["trace_id"] == trace and "value" not in row
    assert row["error"] == "status 500: no model"
    assert len(a.requests) == 3
    assert daemon.metrics()['mcpd_scores_total{scorer="helpful",result="error"}'] == 1


BAD_ANSWERS = {
    "range": (answer(2), "its value 2 is not from 0 to 1"),
    "type": (answer("good"), "its value is no number"),
    "none": (Reply(200, body=b'{"value":null}'), "its value is no number"),
    "text": (Reply(200, body=b"0.5"), "its answer is no JSON object"),
    "long": (Reply(200, body=b" " * 70_000), "its answer is longer than 65536 bytes"),
    "redirect": (Reply(302, {"Location": "http://127.0.0.1:1/"}, b""), "status 302"),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_an_answer_that_is_no_score_is_a_failure_not_a_zero(site, a, case):
    reply, reason = BAD_ANSWERS[case]
    a.always(reply)
    daemon = start(site, {"name": "helpful", "output": {"type": "number", "min": 0, "max": 1},
                          "judge": judge(a, retries=0)})
    send_traces(daemon, 1)
    row, = wait_scores(daemon, 1)
    assert "value" not in row and row["error"] == reason
    assert len(a.requests) == 1


def test_labels_and_texts_are_checked(site, a):
    a.next(answer("order"), answer("gossip"), answer("x" * 501), answer("x" * 500))
    scorer = {"name": "intent", "output": {"type": "label", "labels": ["order", "refund"]},
              "judge": judge(a, retries=0, parallel=1)}
    text = {"name": "summary", "output": {"type": "text"}, "judge": judge(a, retries=0, parallel=1)}
    daemon = start(site, scorer)
    send_traces(daemon, 2)
    wait_scores(daemon, 2)
    rows = scores(daemon, "intent")
    assert sorted(r.get("value", r.get("error")) for r in rows) == ["its value is none of the labels",
                                                                    "order"]
    write_settings(site, text)
    wait_until(lambda: send_traces(daemon, 1) and len(scores(daemon, "summary")) >= 2, LONG,
               "two summaries", every=0.5)
    values = sorted(r.get("value", r.get("error")) for r in scores(daemon, "summary"))
    assert "its value is no text of up to 500 characters" in values and "x" * 500 in values


def test_a_slow_judge_delays_nothing_else(any_site, a, b):
    hang = Hang()
    a.always(hang)
    b.always(answer(1))
    daemon = start(any_site, {"name": "slow", "output": {"type": "number"},
                              "judge": judge(a, timeout="10m", parallel=2)},
                   {"name": "fast", "output": {"type": "number"}, "judge": judge(b)}, RULE)
    send_traces(daemon, 10)
    a.wait_for(2, LONG)
    send_traces(daemon, 10)
    wait_scores(daemon, 20, "fast")
    wait_scores(daemon, 20, "no-tool-error")
    assert len(a.requests) == 2 and scores(daemon, "slow") == []
    wait_series(daemon, 'mcpd_score_jobs{scorer="slow"}', 20)
    begun = time.monotonic()
    assert daemon.stop() == 0 and time.monotonic() - begun < 15  # though two calls are under way


def test_a_judge_that_was_away_gets_what_has_waited(any_site, a):
    a.always(answer(1))
    a.stop()
    daemon = start(any_site, {"name": "helpful", "output": {"type": "number"},
                              "judge": judge(a, parallel=8)})
    traces = send_traces(daemon, 12)
    wait_until(lambda: [j[1] for j in jobs(daemon)] == [1] * 12, LONG,
               lambda: f"all failed once, {jobs(daemon)}")
    assert scores(daemon) == []
    a.start()
    make_due(daemon)
    rows = wait_scores(daemon, 12)
    wait_no_jobs(daemon)
    assert {r["trace_id"] for r in rows} == set(traces) and len(rows) == 12
    assert set(asked(a).values()) == {1}


def test_a_judges_own_traces_are_never_judged(any_site, a):
    """A judge that reports to the same daemon would otherwise be judged for judging, without end."""
    a.always(answer(1))
    daemon = start(any_site, {"name": "helpful", "output": {"type": "number"}, "judge": judge(a)}, RULE)
    own = send_traces(daemon, 3, {"service.name": "judge",
                                  "deployment.environment.name": "mcpd-internal"})
    traces = send_traces(daemon, 2)
    wait_scores(daemon, 4)
    wait_no_jobs(daemon)
    assert set(asked(a)) == set(traces)
    assert {r["trace_id"] for r in scores(daemon)} == set(traces)
    metrics = daemon.metrics()
    assert metrics['mcpd_scores_total{scorer="helpful",result="skipped"}'] == len(own)


def test_a_sample_is_the_share_that_arithmetic_says(any_site):
    daemon = start(any_site, {**RULE, "sample": 0.3}, {"name": "none", "rule": "errors = 0", "sample": 0})
    traces = send_traces(daemon, 100)
    expected = chosen("no-tool-error", traces, 0.3)
    assert 10 < len(expected) < 60
    wait_scores(daemon, len(expected))
    wait_no_jobs(daemon)
    assert {r["trace_id"] for r in scores(daemon)} == expected


def test_a_trace_is_scored_when_its_root_has_ended_or_it_is_old(any_site):
    daemon = start(any_site, RULE, settle={"quiet": "1s", "max_age": "6s"})
    root, chat, _ = agent_spans(1)
    send(daemon, [{**root, "end_ns": None}, chat])
    quiet = send_traces(daemon, 1)[0]
    wait_scores(daemon, 1)
    ended, *_ = agent_spans(2)
    assert [r["trace_id"] for r in scores(daemon)] == [quiet]
    send(daemon, [ended])
    wait_until(lambda: {r["trace_id"] for r in scores(daemon)}
               == {quiet, root["trace_id"], ended["trace_id"]}, LONG, "the old one, too")


def test_an_open_root_keeps_its_trace_from_being_scored(any_site):
    daemon = start(any_site, RULE)
    root, chat, tool = agent_spans(10)
    send(daemon, [{**root, "end_ns": None}, chat])
    others = set(send_traces(daemon, 1))
    wait_scores(daemon, 1)
    send(daemon, [tool])
    later = set(send_traces(daemon, 1))
    wait_scores(daemon, 2)
    assert {r["trace_id"] for r in scores(daemon)} == others | later
    send(daemon, [root])
    rows = {r["trace_id"]: r["value"] for r in wait_scores(daemon, 3)}
    assert rows[root["trace_id"]] == 0  # the tool's error came before the end


def test_the_same_job_worked_off_twice_leaves_one_score(any_site, a):
    """As two leaders in turn would, the first of which had lost the answer of its commit."""
    a.always(answer(0.5))
    daemon = start(any_site, {"name": "helpful", "output": {"type": "number"}, "judge": judge(a)}, RULE)
    send_traces(daemon, 3)
    wait_scores(daemon, 6)
    wait_no_jobs(daemon)
    before = scores(daemon)
    a.always(answer(0.9))
    for scorer in ("helpful", "no-tool-error"):
        daemon.store().execute("insert into score_jobs (project, trace_id, scorer)"
                               f" select project, trace_id, '{scorer}' from traces")
    wait_no_jobs(daemon)
    assert scores(daemon) == before and set(asked(a).values()) == {2}


def test_the_same_request_three_times_changes_no_sum_and_no_score(any_site):
    daemon = start(any_site, RULE)
    spans = [span for number in range(5) for span in agent_spans(number)]
    send(daemon, spans)
    sums = daemon.store().traces()
    wait_scores(daemon, 5)
    for _ in range(2):
        reply = send(daemon, spans)
        assert reply.headers["mcpd-duplicate"] == "15"
    daemon.store().forget_keys()
    assert send(daemon, spans).headers["mcpd-duplicate"] == "15"
    wait_no_jobs(daemon)
    assert daemon.store().traces() == sums and len(scores(daemon)) == 5


def test_jobs_that_nobody_does_are_forgotten_after_a_week(any_site):
    daemon = start(any_site, RULE)
    send_traces(daemon, 2)
    wait_scores(daemon, 2)
    week_ago = int(time.time()) - 7 * 86400
    for scorer, due_at in (("gone", week_ago - 60), ("new", week_ago + 3600)):
        daemon.store().execute("insert into score_jobs (project, trace_id, scorer, due_at)"
                               f" select project, trace_id, '{scorer}', {due_at} from traces")
    wait_until(lambda: {job[0] for job in jobs(daemon)} == {"new"}, LONG,
               lambda: f"only the new ones, {jobs(daemon)}")


def test_more_than_a_hundred_thousand_jobs_of_a_scorer_do_not_wait(site, a):
    a.stop()
    daemon = start(site, {"name": "away", "output": {"type": "number"}, "judge": judge(a)}, RULE)
    send_traces(daemon, 1)
    wait_scores(daemon, 1)
    later = int(time.time()) + 3600
    daemon.store().execute(
        "insert into score_jobs (project, trace_id, scorer, due_at)"
        " with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000)"
        f" select 1, randomblob(16), 'away', {later} from n")
    wait_series(daemon, 'mcpd_score_jobs{scorer="away"}', 100000)
    send_traces(daemon, 3)
    wait_scores(daemon, 4)  # the others go on
    metrics = daemon.metrics()
    assert metrics['mcpd_scores_total{scorer="away",result="dropped"}'] == 3
    assert daemon.store().query("select count(*) from score_jobs") == [(100001,)]


def test_other_settings_count_from_the_next_trace_on(any_site):
    daemon = start(any_site, RULE)
    old = send_traces(daemon, 2)
    wait_scores(daemon, 2)
    write_settings(any_site, {"name": "small", "rule": "count() < 100"})

    def has_new():
        send_traces(daemon, 1)
        return scores(daemon, "small")
    wait_until(has_new, LONG, "a score by the new scorer", every=0.5)
    assert not {r["trace_id"] for r in scores(daemon, "small")} & set(old)


def test_new_settings_do_not_wait_for_a_slow_judge(any_site, a, b):
    a.always(Hang())
    b.always(answer(1))
    slow = {"name": "slow", "output": {"type": "number"}, "judge": judge(a, timeout="10m")}
    daemon = start(any_site, slow)
    send_traces(daemon, 2)
    a.wait_for(2, LONG)
    write_settings(any_site, slow, {"name": "new", "output": {"type": "number"}, "judge": judge(b)})

    def has_new():
        send_traces(daemon, 1)
        return scores(daemon, "new")
    wait_until(has_new, LONG, "a score by the new judge", every=0.5)
    assert scores(daemon, "slow") == [] and len(jobs(daemon)) >= 2


def test_many_slow_judges_leave_a_place_for_another(site, a, b):
    a.always(Hang())
    b.always(answer(1))
    slow = [{"name": f"slow-{n}", "output": {"type": "number"},
             "judge": judge(a, timeout="10m", parallel=64)} for n in range(5)]
    daemon = start(site, *slow, {"name": "fast", "output": {"type": "number"}, "judge": judge(b)})
    send_traces(daemon, 70)
    wait_until(lambda: a.under_way == 5 * 64, LONG, lambda: f"all are busy, {a.under_way}")
    wait_scores(daemon, 70, "fast")


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"])
def test_a_judge_is_never_looked_for_where_machines_keep_secrets(site, host):
    daemon = start(site, {"name": "spy", "output": {"type": "number"},
                          "judge": {"url": f"http://{host}/latest/meta-data", "retries": 0}})
    send_traces(daemon, 1)
    row, = wait_scores(daemon, 1)
    assert row["error"] == "its address is link-local or a metadata service's"


def test_the_pages_example_is_in_order(tmp_path):
    page = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    example, = re.findall(r"```yaml\n(.*?)```", page, re.S)
    (tmp_path / "mcpd.yaml").write_text(example)
    done = run_once("check", tmp_path / "mcpd.yaml", env={"JUDGE_KEY": "k"})
    assert done.returncode == 0, done.stderr


def test_a_judge_whose_certificate_nobody_knows_is_not_told_anything(site):
    with Upstream(tls=tls.server(tls.make(site.folder, "judge"), "judge")) as up:
        daemon = start(site, {"name": "helpful", "output": {"type": "number"},
                              "judge": judge(up, retries=0)})
        send_traces(daemon, 1)
        row, = wait_scores(daemon, 1)
        assert "certificate" in row["error"] and up.requests == []


def test_every_sampled_trace_gets_one_score_through_a_takeover(site, postgres, a):
    """The leader is killed with judge calls under way: the other one chooses the same traces."""
    a.always(Reply(200, body=b'{"value":1}', delay=0.2))
    file = write_settings(site, {"name": "helpful", "sample": 0.5, "output": {"type": "number"},
                                 "judge": judge(a, parallel=2)}, {**RULE, "sample": 0.5})
    daemons = {name: site.daemon(name=name, config=str(file), pass_interval=PASS, store=postgres.url,
                                 env={"MCPD_NAME": name}) for name in ("one", "two")}
    lease = Lease(postgres)
    first, fence = lease.wait_leader()
    survivor = daemons["two" if first == "one" else "one"]
    traces = send_traces(survivor, 40)
    a.wait_for(4, LONG)
    daemons[first].kill9()
    traces += send_traces(survivor, 40)
    lease.wait_leader(above=fence)
    judged, ruled = chosen("helpful", traces, 0.5), chosen("no-tool-error", traces, 0.5)
    wait_scores(survivor, len(judged) + len(ruled))

    def is_done():
        return (postgres.query("select count(*) from score_jobs") == [(0,)]
                and postgres.query("select count(*) from traces where state = 'open'") == [(0,)])
    wait_until(is_done, LONG, "nothing waits")
    by_scorer = collections.defaultdict(collections.Counter)
    for row in scores(survivor):
        by_scorer[row["name"]][row["trace_id"]] += 1
        assert "error" not in row
    assert set(by_scorer["helpful"]) == judged and set(by_scorer["no-tool-error"]) == ruled
    assert set(by_scorer["helpful"].values()) | set(by_scorer["no-tool-error"].values()) == {1}
    assert set(asked(a)) == judged  # no trace that is not in the sample was ever shown to the judge
    assert sum(asked(a).values()) <= len(judged) + 2  # those that were under way


def test_a_leader_that_lost_the_lease_asks_no_judge(site, postgres, a):
    hang = Hang()
    a.always(hang)
    file = write_settings(site, {"name": "helpful", "output": {"type": "number"},
                                 "judge": judge(a, timeout="10m", parallel=2)})
    daemons = {name: site.daemon(name=name, config=str(file), pass_interval=PASS, store=postgres.url,
                                 env={"MCPD_NAME": name}) for name in ("one", "two")}
    lease = Lease(postgres)
    first, fence = lease.wait_leader()
    send_traces(daemons[first], 6)
    a.wait_for(2, LONG)
    second = "two" if first == "one" else "one"
    daemons[first].pause()
    lease.wait_leader(above=fence)
    a.wait_for(4, LONG)  # the new leader asks again
    daemons[first].resume()
    wait_series(daemons[first], "mcpd_lease_held", 0)
    wait_until(lambda: a.under_way == 2, LONG, lambda: f"the old calls broken off, {a.under_way}")
    hang.release(a, answer(1))
    a.always(answer(1))
    rows = wait_scores(daemons[second], 6)
    assert len(rows) == 6 and len({r["trace_id"] for r in rows}) == 6


def test_a_database_that_freezes_delays_scores_and_spoils_none(site, postgres, postgres_server, a):
    a.always(Reply(200, body=b'{"value":1}', delay=0.1))
    daemon = start(site, {"name": "helpful", "output": {"type": "number"},
                          "judge": judge(a, parallel=2)}, RULE, store=postgres.url)
    daemon.database = postgres
    traces = send_traces(daemon, 20)
    a.wait_for(3, LONG)
    postgres_server.pause()
    try:
        wait_series(daemon, "mcpd_lease_held", 0)
        wait_until(lambda: a.under_way == 0, LONG, "no call is under way without the lease")
        frozen = len(a.requests)
    finally:
        postgres_server.resume()
    rows = wait_scores(daemon, 40)
    wait_no_jobs(daemon)
    by_scorer = collections.Counter((r["name"], r["trace_id"]) for r in rows)
    assert len(rows) == len(by_scorer) == 40 and not [r for r in rows if "error" in r]
    assert {trace for _, trace in by_scorer} == set(traces)
    assert len(a.requests) <= len(traces) + 4 and frozen <= len(traces)
