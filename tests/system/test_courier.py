# SPDX-License-Identifier: MIT
"""A courier on its own: it delivers what any gateway put into the queue, and what cannot be put into
HTTP ends in dead/ instead of going round for ever or smuggling a header."""
import hashlib

import pytest

from lib.process import run_once
from lib.queue_peer import STORED, Gateway, meta
from lib.upstream import Reply, Upstream
from lib.wait import wait_until


@pytest.fixture
def up():
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(name="broker")
def broker_fixture(site):
    return site.broker()


def store(broker, *metas, body=b"body"):
    with Gateway(broker).hello() as gateway:
        assert gateway.submit(*[(one, body) for one in metas]) == [STORED] * len(metas)
        gateway.send("BYE")


UNSENDABLE = [{"target": "no/path"}, {"target": "http://other/"}, {"target": "/a b"},
              {"target": "/a\r\nX-Smuggled: yes"}, {"target": ""}, {"agent": "a\r\nX-Smuggled: yes"},
              {"type": "text\n"}, {"key": "k\0"}, {"tracestate": "a\x7f"}]


def test_what_is_no_http_goes_to_the_dead_letters_and_the_rest_is_delivered(site, broker, up):
    store(broker, *[meta(**{"key": f"bad{i}", **fields}) for i, fields in enumerate(UNSENDABLE)],
          *[meta(key=f"good{i}") for i in range(5)])
    site.courier(broker, upstream=[up.url])
    wait_until(lambda: len(up.by_key()) == 5, 20, lambda: f"all good ones, {up.by_key()}")
    broker.wait_metric("mcpd_relay_dead_letter_total", len(UNSENDABLE))
    assert set(up.by_key()) == {f"good{i}" for i in range(5)}
    assert not any(request.header("X-Smuggled") for request in up.requests)


def test_a_request_without_a_key_gets_the_derived_one(site, broker, up):
    store(broker, meta(target="/v1/ingest", key=""), body=b"the body")
    site.courier(broker, upstream=[up.url])
    (request,) = up.wait_for(1)
    digest = hashlib.sha256(b"/v1/ingest\0\0the body").hexdigest()
    assert request.key == f"relay-{digest}"


def test_four_workers_unless_told_otherwise(site, broker, up):
    up.always(Reply(200, delay=0.05))
    store(broker, *[meta(key=f"k{i}") for i in range(60)])
    site.courier(broker, upstream=[up.url])
    wait_until(lambda: len(up.by_key()) == 60, 20, lambda: f"all, {len(up.by_key())}")
    assert up.peak == 4


def test_two_couriers_share_the_work(site, broker, up):
    up.always(Reply(200, delay=0.02))
    couriers = [site.courier(broker, upstream=[up.url]) for _ in range(2)]
    store(broker, *[meta(key=f"k{i}") for i in range(200)])
    wait_until(lambda: len(up.by_key()) == 200, 20, lambda: f"all, {len(up.by_key())}")
    assert max(up.by_key().values()) == 1
    wait_until(lambda: sum(c.metric("mcpd_relay_delivered_total") for c in couriers) == 200, 10)
    assert all(c.metric("mcpd_relay_delivered_total") > 20 for c in couriers)


def test_while_nothing_is_open_the_broker_is_left_in_peace(site, broker, up):
    """No lease goes back and forth during a cool-off."""
    up.always(Reply(503, {"Retry-After": "600"}))
    store(broker, *[meta(key=f"k{i}") for i in range(100)])
    courier = site.courier(broker, upstream=[up.url])
    up.wait_for(1)
    wait_until(lambda: broker.metric("mcpd_queue_leases") == 0, 10, "all leases are back")
    cpu = courier.cpu_seconds()
    probes = len(up.probes)
    wait_until(lambda: len(up.probes) > probes, 15, "another probe")
    assert courier.cpu_seconds() - cpu < 0.2
    assert len(up.requests) <= 4 and broker.metric("mcpd_queue_leases") == 0


WRONG = [(["http://u:secret@h"], "no user or password"), (["http://h", "http://h/"], "given twice"),
         (["ftp://h"], "http:// or https://"), (["http://h color=red"], "unknown option"),
         (["http://h timeout=1y"], "is not a time"), (["http://h probe=x"], "starts with '/'"),
         (["https://h ca-file=/none"], "cannot be read")]


@pytest.mark.parametrize("upstreams,reason", WRONG)
def test_a_wrong_upstream_stops_the_start_with_the_reason(site, upstreams, reason):
    arguments = [part for text in upstreams for part in ("--upstream", text)]
    result = run_once("relay", "--spool-dir", site.folder / "s", "--listen", "127.0.0.1:0",
                      *arguments)
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert reason in text and "secret" not in text
