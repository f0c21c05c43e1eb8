# SPDX-License-Identifier: MIT
"""The OpenTelemetry Collector on either side of the relay: what its exporter and its receiver expect
is what they get."""
import time

import pytest

from collector import Collector
from lib import http
from lib.telemetry import otlp_request
from lib.upstream import Reply
from lib.wait import wait_until
from otlp_items import items_of
from peers import SMALL_SPOOL, Recorder, SdkSender, compare, fill
from stored import stored_logs, stored_points, stored_spans

LOAD = {"traces": 300, "logs": 400, "points": 150, "batch": 40, "pause": "4ms"}
ITEMS = 3 * 300 + 400 + 3 * 150
RELAY = {"lease": "2s", "workers": 8}


@pytest.fixture
def collector(site, collector_program):
    """Starts a Collector that sends to a URL; it is ended with the test."""
    def start(endpoint, **settings):
        process = Collector(collector_program, site.folder, endpoint, **settings)
        site.processes.append(process)
        return process.start()
    return start


def wait_items(upstream, count, seconds=60.0):
    wait_until(lambda: len(items_of(upstream.kept())) >= count, seconds,
               lambda: f"{count} items arrive, there are {len(items_of(upstream.kept()))}",
               every=0.2)


# In front of the relay.

@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_collector_as_sender_reads_our_answers_as_success(site, collector, encoding):
    """200 and the empty partialSuccess are what its exporter takes for "all is well"."""
    with Recorder() as upstream:
        relay = site.relay(upstream=[upstream.url], **RELAY)
        sender = collector(relay.url, exporter={"encoding": encoding})
        for number in range(20):
            request = otlp_request(number)
            assert http.post(sender.port, request.path, request.body,
                             request.content_type).status == 200
        upstream.wait_for(20)
        assert sender.complaints() == [] and "Exporting failed" not in sender.log()
        for request in upstream.kept():
            assert request.header("Content-Encoding") == "gzip"
            assert request.header("Content-Type") == f"application/{'x-protobuf' if encoding == 'proto' else 'json'}"
            assert request.key.startswith("relay-")


def test_items_through_a_collector_arrive_once_though_the_relay_crashes(site, sdk_sender, collector):
    """SDK, Collector with its queue on disk, relay, upstream: kill -9 of the relay and an outage of
    the upstream while items flow."""
    with Recorder() as upstream:
        relay = site.relay(upstream=[upstream.url], **RELAY)
        between = collector(relay.url, storage={"fsync": True})
        with SdkSender(sdk_sender, between, **LOAD) as sender:
            sender.wait_items(ITEMS // 4)
            relay.kill9()
            sender.wait_items(ITEMS // 3)
            relay.start()
            sender.wait_items(ITEMS // 2)
            upstream.stop()
            wait_until(lambda: relay.metric("mcpd_relay_spool_entries") >= 3, 30, "items wait")
            upstream.start()
            sender.wait_end()
        wait_items(upstream, ITEMS)
        relay.wait_drained()
        assert between.complaints() == []
        compare(sender.items, items_of(upstream.kept()))


def test_collector_waits_as_long_as_a_full_relay_asks(site, collector):
    """The exporter would repeat after 0.1 s; with our Retry-After: 5 it makes one attempt and then
    waits, and gets the item in once there is room."""
    with Recorder() as upstream:
        upstream.stop()
        relay = site.relay(upstream=[upstream.url], **SMALL_SPOOL, **RELAY)
        reply = fill(relay)
        assert reply.status == 503 and reply.headers["retry-after"] == "5", reply
        refused = relay.metric("mcpd_relay_refused_full_total")
        sender, request = collector(relay.url), otlp_request(1)
        assert http.post(sender.port, request.path, request.body, request.content_type).status == 200
        wait_until(lambda: relay.metric("mcpd_relay_refused_full_total") > refused, 10,
                   "the Collector's first attempt is refused", every=0.005)
        began = time.monotonic()
        upstream.start()
        wait_until(lambda: any(r.target == "/v1/traces" for r in upstream.accepted), 40,
                   lambda: f"the item arrives; {relay.readyz()} {sender.log()[-2000:]}", every=0.02)
        assert time.monotonic() - began > 4.5, "it did not wait for Retry-After"
        assert relay.metric("mcpd_relay_refused_full_total") == refused + 1
        assert sender.complaints() == []
        assert "Message=the spool is full" in sender.log(), "our Status body was not read"


def test_collector_drops_at_once_what_a_wrong_key_brings(site, collector):
    """401 is final for it, and its log shows our Status message."""
    with Recorder() as upstream:
        relay = site.relay(upstream=[upstream.url], ingest_key="the-right-key-of-ours", **RELAY)
        wrong = collector(relay.url, name="wrong", exporter={
            "headers": {"Authorization": "Bearer something-else"}})
        right = collector(relay.url, name="right", exporter={
            "headers": {"Authorization": "Bearer the-right-key-of-ours"}})
        request, other = otlp_request(1), otlp_request(2)
        assert http.post(wrong.port, request.path, request.body, request.content_type).status == 200
        assert http.post(right.port, other.path, other.body, other.content_type).status == 200
        wait_until(wrong.complaints, 20, lambda: f"an item is dropped\n{wrong.log()}")
        assert "HTTP Status Code 401, Message=" in wrong.complaints()[0]
        wait_items(upstream, 3)
        assert right.complaints() == []
        kept, = upstream.kept()
        assert kept.header("Authorization") == "Bearer the-right-key-of-ours"


# Behind the relay.

def test_items_reach_a_collector_behind_the_relay_once(site, sdk_sender, collector):
    """SDK, relay, Collector, its own upstream; the Collector is stopped and started in the middle.
    What the relay was answered 200 for is what the Collector hands on."""
    with Recorder() as last:
        between = collector(last.url, storage={"fsync": True}, exporter={
            "headers": {"x-from": "collector"}})
        relay = site.relay(upstream=[f"{between.url} probe=off"], **RELAY)
        with SdkSender(sdk_sender, relay, gzip=True, **LOAD) as sender:
            sender.wait_items(ITEMS // 3)
            assert between.stop() == 0
            wait_until(lambda: relay.metric("mcpd_relay_spool_entries") >= 3, 30, "items wait")
            between.start()
            sender.wait_end()
        relay.wait_drained()
        assert relay.metric("mcpd_relay_dead_letter_total") == 0
        wait_until(lambda: len(items_of(last.accepted)) >= ITEMS, 60, "all items arrive", every=0.2)
        # The Collector sends no Idempotency-Key, so each request counts.
        compare(sender.items, items_of(last.accepted))


def test_what_a_full_collector_refuses_waits_in_the_relay(site, collector):
    """Queue full: the receiver answers 503 without Retry-After. Nothing is dead, nothing is lost, and
    all of it arrives when the Collector's own upstream is back."""
    with Recorder() as last:
        last.always(Reply(503))
        between = collector(last.url, queue={"queue_size": 30, "num_consumers": 1})
        relay = site.relay(upstream=[f"{between.url} probe=off"], **RELAY)
        sent = [otlp_request(number) for number in range(60)]
        for request in sent:
            assert http.post(relay.port, request.path, request.body,
                             request.content_type).status == 200
        relay.wait_metric("mcpd_relay_failed_attempts_total", 1)
        last.always(Reply(200))
        relay.wait_drained(90)
        ids = {(span.trace_id, span.span_id) for request in sent for span in request.spans}
        wait_until(lambda: {(i["trace_id"], i["span_id"]) for i in items_of(last.accepted)} == ids,
                   60, "all spans arrive", every=0.2)
        assert relay.metric("mcpd_relay_dead_letter_total") == 0
        assert relay.metric("mcpd_relay_delivered_total") == len(sent)


def test_what_a_collector_cannot_decode_is_dead_after_one_attempt(site, collector):
    """Its 400 is final: dead/, not a second attempt, and what lies behind it goes on."""
    with Recorder() as last:
        between = collector(last.url)
        relay = site.relay(upstream=[f"{between.url} probe=off"], **RELAY)
        good = otlp_request(7)
        assert http.post(relay.port, "/v1/traces", b"\xff\xff\xff",
                         "application/x-protobuf").status == 200
        assert http.post(relay.port, good.path, good.body, good.content_type).status == 200
        wait_until(lambda: items_of(last.accepted), 30, "the good request arrives")
        relay.wait_metric("mcpd_relay_dead_letter_total", 1)
        relay.wait_drained()
        assert relay.metric("mcpd_relay_failed_attempts_total") == 1
        assert relay.metric("mcpd_relay_delivered_total") == 1


def test_collector_between_two_relays_reaches_the_daemon(site, sdk_sender, collector):
    """SDK, relay, Collector, relay, daemon: read back from the daemon as sent."""
    daemon = site.daemon()
    inner = site.relay(name="inner", upstream=[daemon.url], **RELAY)
    between = collector(inner.url)
    outer = site.relay(name="outer", upstream=[f"{between.url} probe=off"], **RELAY)
    with SdkSender(sdk_sender, outer, **LOAD) as sender:
        sender.wait_end()
    outer.wait_drained()

    def stored():
        return stored_spans(daemon) + stored_logs(daemon) + stored_points(daemon)
    wait_until(lambda: len(stored()) >= ITEMS, 60, lambda: f"all items, there are {len(stored())}",
               every=0.5)
    inner.wait_drained()
    compare(sender.items, stored())


def test_collector_is_told_that_the_relay_is_away(site, collector):
    """No relay at all, then one: the exporter's retry finds it, nothing is dropped."""
    with Recorder() as upstream:
        relay = site.relay(upstream=[upstream.url], start=False, **RELAY)
        sender, request = collector(relay.url), otlp_request(3)
        assert http.post(sender.port, request.path, request.body, request.content_type).status == 200
        wait_until(lambda: "Exporting failed" in sender.log(), 20, "its first attempt fails")
        relay.start()
        wait_items(upstream, 3)
        assert sender.complaints() == []
