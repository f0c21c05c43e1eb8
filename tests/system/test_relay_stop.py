# SPDX-License-Identifier: MIT
"""SIGTERM under load: every request that was answered 2xx is kept, the process ends with 0."""
import time

from lib.ports import free_port
from lib.sender import Load, paced
from lib.stops import stop_again_and_again
from lib.store import Comparison, Store
from lib.telemetry import endless, mixed


def test_stop_under_load_keeps_every_2xx(site):
    daemon = site.daemon()
    relay = site.relay(upstream=daemon.url, start=False)
    requests, sent = endless(), []
    for _ in range(5):
        relay.start()
        load = Load(relay.port, paced(requests, 600), connections=16, timeout=10).start()
        time.sleep(0.4)
        assert relay.stop() == 0, relay.log()
        sent += load.stop().sent
    relay.start()
    relay.wait_drained()
    assert sum(one.is_accepted for one in sent) > 200
    Comparison(sent, Store(daemon.data)).check()


def test_senders_that_look_at_readyz_get_every_answer(site):
    stop_again_and_again(site, 3)


def test_stopped_relay_keeps_what_waits(site):
    """No upstream at all: a shutdown removes nothing."""
    daemon = site.daemon()
    daemon.stop()
    relay = site.relay(upstream=daemon.url)
    load = Load(relay.port, mixed(200)).run()
    assert len(load.accepted) == 200
    assert relay.stop() == 0
    relay.start()
    assert relay.metric("mcpd_relay_spool_entries") == 200
    daemon.start()
    relay.wait_drained()
    Comparison(load.sent, Store(daemon.data)).check()


def test_daemon_stops_under_load_with_status_0(site):
    daemon = site.daemon()
    load = Load(daemon.port, paced(endless(), 300), connections=8, timeout=10).start()
    time.sleep(0.5)
    assert daemon.stop() == 0, daemon.log()
    load.stop()
    assert load.accepted
    Comparison(load.sent, Store(daemon.data)).check()


def test_stop_with_no_upstream_and_idle_senders_is_quick(site):
    relay = site.relay(upstream=f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - began < 8, relay.log()
