# SPDX-License-Identifier: MIT
"""The OpenTelemetry SDK as sender: what its exporters were told is taken arrives, once, whatever
happens on the way. Sent is what an Export that returned nil carried."""
import pytest

from lib.wait import wait_until
from otlp_items import items_of
from peers import SMALL_SPOOL, Recorder, SdkSender, compare, fill
from stored import stored_logs, stored_points, stored_spans

TRACES, LOGS, POINTS = 600, 900, 300
ITEMS = 3 * TRACES + LOGS + 3 * POINTS
LOAD = {"traces": TRACES, "logs": LOGS, "points": POINTS, "batch": 40, "pause": "4ms"}
KEY, READER = "the-sender-s-own-key", "a-key-that-may-read"
RELAY = {"lease": "2s", "workers": 8}


def crash_relay(relay, sender, at):
    """kill -9 when `at` items are acknowledged; back only after the SDK has run into it."""
    sender.wait_items(at)
    relay.kill9()
    sender.wait_failure()
    relay.start()


def outage(relay, sender, at, end, begin):
    """The upstream goes away when `at` items are acknowledged, and comes back when the relay holds
    requests for it."""
    sender.wait_items(at)
    end()
    wait_until(lambda: relay.metric("mcpd_relay_spool_entries") >= 5, 30,
               lambda: f"requests wait in the spool: {relay.metrics()}")
    begin()


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_sdk_items_arrive_once_through_crash_and_outage(site, sdk_sender, compressed):
    with Recorder() as upstream:
        relay = site.relay(upstream=[upstream.url], **RELAY)
        with SdkSender(sdk_sender, relay, gzip=compressed, seed=f"gzip {compressed}",
                       **LOAD) as sender:
            crash_relay(relay, sender, ITEMS // 4)
            outage(relay, sender, ITEMS // 2, upstream.stop, upstream.start)
            sender.wait_end()
        relay.wait_drained()
        assert len(sender.items) == ITEMS
        assert relay.metric("mcpd_relay_dead_letter_total") == 0
        encodings = {request.header("Content-Encoding") for request in upstream.kept()}
        assert encodings == ({"gzip"} if compressed else {None})
        compare(sender.items, items_of(upstream.kept()))


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_sdk_items_are_read_back_from_the_daemon_as_sent(site, sdk_sender, encoding):
    """Traces, logs and metrics; json: the traces. The daemon asks for a key; the relay keeps the
    sender's with each request and passes it on."""
    daemon = site.daemon(ingest_key=[f"default/in={KEY}", f"default/rd={READER}"])
    relay = site.relay(upstream=[daemon.url], **RELAY)
    with SdkSender(sdk_sender, relay, key=KEY, gzip=True, json=encoding == "json",
                   **LOAD) as sender:
        crash_relay(relay, sender, ITEMS // 4)
        outage(relay, sender, ITEMS // 2, daemon.kill9, daemon.start)
        sender.wait_end()
    relay.wait_drained()
    assert relay.metric("mcpd_relay_dead_letter_total") == 0
    assert len(sender.items) == ITEMS
    compare(sender.of("span"), stored_spans(daemon, READER))
    compare(sender.of("log"), stored_logs(daemon, READER))
    compare(sender.of("point"), stored_points(daemon, READER))


def test_sdk_holds_its_data_while_the_spool_is_full(site, sdk_sender):
    """503 and Retry-After: the plain exporters wait and repeat by themselves, no Export fails, and all
    of it arrives once there is room."""
    with Recorder() as upstream:
        upstream.stop()
        relay = site.relay(upstream=[upstream.url], **SMALL_SPOOL, **RELAY)
        assert fill(relay).status == 503
        refused = relay.metric("mcpd_relay_refused_full_total")
        with SdkSender(sdk_sender, relay, traces=30, logs=100, points=30, batch=100) as sender:
            relay.wait_metric("mcpd_relay_refused_full_total", refused + 3)
            assert sender.items == []
            upstream.start()
            sender.wait_end()
        relay.wait_drained()
        assert sender.failures == [] and len(sender.items) == 3 * 30 + 100 + 3 * 30
        sent_by_sdk = [r for r in upstream.kept() if r.target != "/v1/fill"]
        compare(sender.items, items_of(sent_by_sdk))
