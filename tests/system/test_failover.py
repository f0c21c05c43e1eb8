# SPDX-License-Identifier: MIT
"""Failover and the way back: what senders gave to a relay arrives, whatever upstreams do, and the
first upstream gets its traffic back without anybody's help."""
import signal

import pytest

from lib import http, tls
from lib.upstream import Hang, Reply, Upstream
from lib.wait import wait_until


class Numbers:
    """Sends requests with keys k0, k1, ... over one connection."""

    def __init__(self, relay):
        self.relay, self.count, self.connection = relay, 0, http.Connection(relay.port)

    def send(self, count=1):
        for _ in range(count):
            key = f"k{self.count}"
            reply = self.connection.request("POST", "/v1/ingest", key.encode(),
                                            {"Idempotency-Key": key})
            assert reply.status == 202
            self.count += 1
        return self.count

    @property
    def keys(self):
        return {f"k{number}" for number in range(self.count)}

    def send_until(self, condition, seconds, what):
        wait_until(lambda: self.send() and condition(), seconds, what, every=0.03)


def wait_arrived(numbers, *upstreams, seconds=30):
    """Until every request sent is at one of the upstreams."""
    wait_until(lambda: arrived(*upstreams) >= numbers.keys, seconds,
               lambda: f"all arrive, missing {sorted(numbers.keys - arrived(*upstreams))[:9]}")


def arrived(*upstreams):
    return set().union(*(upstream.by_key() for upstream in upstreams))


def test_a_refused_connection_fails_over_and_traffic_returns(site, a, b):
    a.stop()
    relay = site.relay(upstream=[a.url, b.url])
    numbers = Numbers(relay)
    numbers.send(50)
    wait_until(lambda: len(b.by_key()) == 50, 10, "all at B")
    assert relay.metric("mcpd_relay_failovers_total") == 50
    a.start()
    numbers.send_until(lambda: len(a.requests) > 20, 35, "traffic is back at A")
    wait_arrived(numbers, a, b)
    assert max((a.by_key() + b.by_key()).values()) == 1
    assert relay.metric("mcpd_relay_dead_letter_total") == 0
    log = relay.log()
    assert "upstream.cooled" in log and "upstream.recovered" in log


def test_an_upstream_that_dies_under_way_loses_nothing(site, a, b):
    relay = site.relay(upstream=[a.url, b.url], workers=16)
    numbers = Numbers(relay)
    for _ in range(3):
        numbers.send(100)
        a.stop()
        numbers.send(100)
        a.start()
    wait_arrived(numbers, a, b)
    assert relay.metric("mcpd_relay_dead_letter_total") == 0


def test_a_hanging_upstream_holds_up_nobody_for_long(site, a, b):
    relay = site.relay(upstream=[a.url + " timeout=500ms", b.url])
    a.always(Hang())
    numbers = Numbers(relay)
    numbers.send(30)
    wait_arrived(numbers, b)
    # Those under way together, and a trial for each cool-off that ended meanwhile.
    assert len(a.requests) <= 4 + 8


def test_at_half_open_exactly_one_request_tries(site, a, b):
    a.stop()
    relay = site.relay(upstream=[a.url, b.url], workers=16)
    numbers = Numbers(relay)
    numbers.send(1)
    b.wait_for(1)
    trial = Hang()
    a.always(trial)
    a.start()
    numbers.send_until(lambda: a.requests, 10, "a trial")
    numbers.send(100)
    wait_until(lambda: len(b.by_key()) == numbers.count - 1, 10, "the others at B")
    assert len(a.requests) == 1 and a.peak == 1
    a.always(Reply(200))
    trial.release(a)
    numbers.send_until(lambda: len(a.requests) > 20, 10, "traffic is back at A")


def test_a_backlog_does_not_crush_a_recovering_upstream(site, a):
    """The trial alone, then one, and twice as many at once with each that is delivered."""
    a.stop()
    relay = site.relay(upstream=[a.url], workers=16)
    numbers = Numbers(relay)
    numbers.send(300)
    hang = Hang()
    a.always(hang)
    a.start()
    a.wait_for(1, 30)
    for expected in (1, 1, 2, 8, 16):
        wait_until(lambda n=expected: len(hang.held) == n, 5,
                   lambda n=expected: f"{n} at once, there are {len(hang.held)}")
        hang.release(a)
    a.always(Reply(200))
    hang.release(a)
    wait_arrived(numbers, a)
    assert a.peak == 16


def test_with_all_upstreams_down_requests_wait_and_the_upstreams_are_left_alone(site, a, b):
    relay = site.relay(upstream=[a.url, b.url])
    a.always(Reply(503, {"Retry-After": "3"}))
    b.always(Reply(503, {"Retry-After": "3"}))
    numbers = Numbers(relay)
    numbers.send(200)
    wait_until(lambda: a.requests and b.requests, 10, "both were asked")
    first_attempts = len(a.requests), len(b.requests)
    wait_until(lambda: a.requests[-1].at - a.requests[0].at > 2.5, 20, "the next attempt")
    assert max(first_attempts) <= 4
    assert a.requests[first_attempts[0]].at - a.requests[0].at >= 3.0
    a.forget_script()
    b.forget_script()
    wait_arrived(numbers, a, b, seconds=60)
    assert relay.metric("mcpd_relay_dead_letter_total") == 0


def test_readiness_follows_the_upstreams(site, a):
    a.stop()
    relay = site.relay(upstream=[a.url])
    assert relay.readyz()[0] == 200 and relay.readyz()[1].startswith("degraded")
    up = f'mcpd_relay_upstream_up{{upstream="{a.url}",order="1"}}'
    assert relay.metrics()[up] == 0
    a.start()
    wait_until(lambda: relay.readyz()[1].startswith("ok"), 15, lambda: relay.readyz())
    assert relay.metrics()[up] == 1


def test_a_failing_probe_cools_nobody(site, a, b):
    a.ready = Reply(503)
    relay = site.relay(upstream=[a.url, b.url])
    wait_until(lambda: a.probes, 10, "a probe")
    numbers = Numbers(relay)
    numbers.send(20)
    wait_arrived(numbers, a)
    assert not b.requests


def test_counts_are_told_by_upstream_and_order(site, a, b):
    relay = site.relay(upstream=[a.url, b.url + " name=second"])
    numbers = Numbers(relay)
    numbers.send(3)
    relay.wait_metric("mcpd_relay_delivered_total", 3)
    a.next(Reply(503))
    numbers.send(2)
    relay.wait_metric("mcpd_relay_delivered_total", 5)
    metrics = relay.metrics()
    assert metrics[f'mcpd_relay_delivered_total{{upstream="{a.url}",order="1"}}'] >= 3
    assert metrics['mcpd_relay_delivered_total{upstream="second",order="2"}'] >= 1
    assert metrics[f'mcpd_relay_failed_attempts_total{{upstream="{a.url}",order="1"}}'] == 1
    assert metrics[f'mcpd_relay_cooloffs_total{{upstream="{a.url}",reason="hard"}}'] == 1
    states = {state: metrics[f'mcpd_relay_upstream_state{{upstream="{a.url}",state="{state}"}}']
              for state in ("closed", "cooling", "half_open")}
    assert sorted(states.values()) == [0, 0, 1]
    assert metrics["mcpd_relay_failovers_total"] == \
        metrics['mcpd_relay_delivered_total{upstream="second",order="2"}']


def test_a_stopping_relay_lets_deliveries_end_and_keeps_the_rest(site, a):
    slow = Hang()
    a.always(slow)
    relay = site.relay(upstream=[a.url])
    numbers = Numbers(relay)
    numbers.send(10)
    wait_until(lambda: len(slow.held) == 4, 10, "four under way")
    relay.signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in relay.log(), 10, "stopping")
    a.always(Reply(200))
    slow.release(a)
    assert relay.wait(30) == 0
    relay.start()
    wait_arrived(numbers, a)
    assert a.by_key()["k0"] == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1, and a stranger."""
    return tls.make(tmp_path_factory.mktemp("tls"), "upstream", "stranger")


def test_https_is_delivered_to_whom_the_certificate_names_only(site, b, certificate):
    with Upstream(tls=tls.server(certificate, "upstream")) as a:
        relay = site.relay(upstream=[f"{a.url} ca-file={certificate}/upstream.pem", b.url])
        numbers = Numbers(relay)
        numbers.send(5)
        wait_arrived(numbers, a)
        assert not b.requests
        a.forget()
        relay = site.relay(upstream=[f"{a.url} ca-file={certificate}/stranger.pem", b.url])
        numbers = Numbers(relay)
        numbers.send(5)
        wait_arrived(numbers, b)
        assert not a.requests
        assert relay.metric("mcpd_relay_dead_letter_total") == 0
        assert "class=config" in relay.log()


def test_requests_of_a_killed_courier_are_delivered_by_the_next(site, a):
    """Three roles as three processes; the courier dies with four deliveries under way."""
    broker = site.broker()
    gateway = site.gateway(broker)
    courier = site.courier(broker, upstream=[a.url])
    hang = Hang()
    a.always(hang)
    wait_until(lambda: gateway.readyz()[0] == 200, 10, lambda: gateway.readyz())
    numbers = Numbers(gateway)
    numbers.send(20)
    wait_until(lambda: len(hang.held) == 4, 10, "four under way")
    courier.kill9()
    a.always(Reply(200))
    site.courier(broker, upstream=[a.url])
    wait_arrived(numbers, a)


def test_a_courier_outlives_its_broker(site, a):
    """What was leased when the broker died is delivered again; nothing is lost, and the courier finds
    the new broker by itself."""
    broker = site.broker()
    gateway = site.gateway(broker)
    courier = site.courier(broker, upstream=[a.url])
    wait_until(lambda: gateway.readyz()[0] == 200, 10, lambda: gateway.readyz())
    numbers = Numbers(gateway)
    hang = Hang()
    a.always(hang)
    numbers.send(20)
    wait_until(lambda: len(hang.held) == 4, 10, "four under way")
    broker.kill9()
    broker.start()
    a.always(Reply(200))
    hang.release(a)
    wait_arrived(numbers, a)
    broker.wait_drained()
    assert courier.is_alive() and courier.readyz() == (200, "ok")
