# SPDX-License-Identifier: MIT
"""The relay's documented metrics: names, types, labels, and that each counts what it says."""
import subprocess
import time

import pytest

from lib import http
from lib.tools import promtool
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

DOCUMENTED = {  # name: (type, labels)
    "mcpd_relay_accepted_total": ("counter", []),
    "mcpd_relay_refused_full_total": ("counter", []),
    "mcpd_relay_failovers_total": ("counter", []),
    "mcpd_relay_dead_letter_total": ("counter", []),
    "mcpd_relay_spool_entries": ("gauge", []),
    "mcpd_relay_spool_bytes": ("gauge", []),
    "mcpd_relay_spool_oldest_seconds": ("gauge", []),
    "mcpd_relay_delivered_total": ("counter", ["upstream", "order"]),
    "mcpd_relay_failed_attempts_total": ("counter", ["upstream", "order"]),
    "mcpd_relay_upstream_up": ("gauge", ["upstream", "order"]),
    "mcpd_uptime_seconds": ("gauge", []),
}


def exposition(process):
    reply = http.get(process.port, "/metrics")
    assert reply.status == 200
    return reply.body.decode()


def test_the_documented_metrics_exist_with_their_types_and_labels(site):
    with Upstream() as up:
        text = exposition(site.relay(upstream=[up.url]))
    for name, (kind, labels) in DOCUMENTED.items():
        assert f"# TYPE {name} {kind}\n" in text, name
        series = next(line for line in text.splitlines()
                      if line.startswith(name) and line[len(name)] in " {")
        inside = series[len(name):series.rfind("}") + 1].strip("{}")
        # a URL holds neither a comma nor a quote
        assert [pair.split("=")[0] for pair in inside.split(",") if pair] == labels, series


def series(up, order):
    return f'{{upstream="{up.url}",order="{order}"}}'


def test_each_metric_counts_what_it_says(site):
    with Upstream() as first, Upstream() as second:
        first.always(Reply(503))
        second.always(Reply(503))
        relay = site.relay(upstream=[first.url, second.url], spool_max_bytes="4MiB",
                           max_body_bytes="64KiB")
        taken = 0
        while http.post(relay.port, "/v1/ingest", b"x" * 50_000).status == 202:
            taken += 1
        relay.wait_metric("mcpd_relay_spool_entries", taken)
        relay.wait_metric("mcpd_relay_spool_oldest_seconds", 1)
        before = relay.metrics()
        assert before["mcpd_relay_accepted_total"] == taken
        assert before["mcpd_relay_refused_full_total"] == 1
        assert before["mcpd_relay_failovers_total"] == 0
        assert taken * 50_000 <= before["mcpd_relay_spool_bytes"] <= 4 << 20
        assert before["mcpd_relay_failed_attempts_total" + series(first, 1)] >= 1
        assert before["mcpd_relay_failed_attempts_total" + series(second, 2)] >= 1

        second.always(Reply(200))
        wait_until(lambda: relay.metric("mcpd_relay_spool_entries") == 0, 60, lambda: relay.log())
        after = relay.metrics()
        assert after["mcpd_relay_delivered_total" + series(second, 2)] == taken
        assert after["mcpd_relay_failovers_total"] == taken
        assert after["mcpd_relay_upstream_up" + series(second, 2)] == 1
        wait_until(lambda: relay.metric("mcpd_relay_spool_oldest_seconds") == 0, 10,
                   lambda: relay.log())

        second.always(Reply(400))
        assert http.post(relay.port, "/v1/ingest", b"bad").status == 202
        relay.wait_metric("mcpd_relay_dead_letter_total", 1)


def histogram(process, name):
    """(buckets by their upper bound, in order; sum; count); bounds and counts only grow."""
    found = process.metrics()
    buckets = [(float(key.split('"')[1]), value) for key, value in found.items()
               if key.startswith(f"{name}_bucket{{")]
    assert buckets == sorted(buckets) and [n for _, n in buckets] == sorted(n for _, n in buckets)
    assert buckets[-1] == (float("inf"), found[f"{name}_count"])
    return dict(buckets), found[f"{name}_sum"], found[f"{name}_count"]


def test_histograms_say_how_long_things_take(site):
    """A sender that takes its time, an upstream that does: each is seen where it belongs."""
    with Upstream() as up:
        up.always(Reply(200, delay=0.6))
        relay = site.relay(upstream=[up.url])
        for _ in range(3):
            assert http.post(relay.port, "/v1/ingest", b"{}").status == 202
        with http.Connection(relay.port) as slow:
            slow.send(http.build("POST", "/v1/ingest", b"x" * 10)[:-1])
            time.sleep(1.1)
            slow.send(b"x")
            assert slow.reply().status == 202
        relay.wait_metric("mcpd_relay_delivered_total", 4)
        buckets, total, count = histogram(relay, "mcpd_http_request_seconds")
        assert count == 4, "probes and metrics are left out"
        assert total >= 1.1 and buckets[float("inf")] - buckets[1] == 1
        buckets, total, count = histogram(relay, "mcpd_relay_attempt_seconds")
        assert count == 4 and total >= 2.4 and buckets[0.5] == 0
        buckets, total, count = histogram(relay, "mcpd_spool_commit_seconds")
        assert 1 <= count <= 4 and total > 0
        buckets, total, batches = histogram(relay, "mcpd_spool_batch_requests")
        assert batches == count and total == 4


def test_prometheus_finds_nothing_to_say_about_them(site):
    if promtool() is None:
        pytest.skip("NO promtool (Debian's prometheus package; `make setup` fetches it): "
                    "/metrics was not checked with it")
    with Upstream() as up:
        for process in (site.relay(upstream=[up.url]), site.daemon()):
            assert http.post(process.port, "/v1/ingest", b'{"events":[]}').status in (200, 202)
            check = subprocess.run([promtool(), "check", "metrics"], input=exposition(process),
                                   text=True, capture_output=True, timeout=30, check=False)
            assert check.returncode == 0, check.stdout + check.stderr
