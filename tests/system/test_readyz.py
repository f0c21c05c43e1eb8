# SPDX-License-Identifier: MIT
"""What a load balancer is told: it keeps sending to a relay that buffers, and moves away from one
that can take no more."""
import os
import re
import resource

from lib import http
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

NOWHERE = "http://127.0.0.1:9"
BODY = b"x" * 50_000


def wait_says(process, status, text, seconds=20.0):
    """Until /readyz answers with the status and a text that begins so."""
    wait_until(lambda: starts(process.readyz(), status, text), seconds,
               lambda: f"{status} {text}, is {process.readyz()}\n{process.log()}")


def starts(answer, status, text):
    return answer is not None and answer[0] == status and answer[1].startswith(text)


def small_spool(site, upstream):
    return site.relay(upstream=[upstream], spool_max_bytes="4MiB", max_body_bytes="64KiB")


def fill(relay):
    """Posts until a request is refused; returns how many were taken."""
    taken = 0
    while True:
        reply = http.post(relay.port, "/v1/ingest", BODY)
        if reply.status != 202:
            return taken, reply
        taken += 1
        assert taken < 1000


def test_ok_while_an_upstream_is_reachable(site):
    with Upstream() as up:
        relay = site.relay(upstream=[up.url])
        wait_says(relay, 200, "ok")
        assert relay.readyz() == (200, "ok")


def test_degraded_while_none_is_and_ok_again_with_the_first_delivery(site):
    with Upstream() as up:
        up.ready = Reply(503)
        relay = site.relay(upstream=[up.url])
        wait_says(relay, 200, "degraded; ")
        assert http.post(relay.port, "/v1/ingest", b"{}").status == 202
        up.ready = Reply(200)
        wait_says(relay, 200, "ok")


def test_no_upstream_and_nearly_full(site):
    relay = small_spool(site, NOWHERE)
    wait_says(relay, 200, "degraded; ")
    for _ in range(70):  # 3.5 of 4.19 MB: more than 80 %, less than full
        assert http.post(relay.port, "/v1/ingest", BODY).status == 202
    wait_says(relay, 503, "no upstream")
    assert http.post(relay.port, "/v1/ingest", BODY).status == 202  # told before it is full
    assert relay.metric("mcpd_relay_spool_bytes") >= 0.8 * (4 << 20)


def test_full_then_free_again(site):
    with Upstream(start=False) as up:
        relay = small_spool(site, up.url)
        taken, reply = fill(relay)
        assert taken > 10
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
        wait_says(relay, 503, "full")
        assert relay.metric("mcpd_relay_refused_full_total") >= 1
        up.start()
        relay.wait_drained(60)
        wait_says(relay, 200, "ok")
        wait_until(lambda: http.post(relay.port, "/v1/ingest", BODY).status == 202, 10, "room again")
        up.wait_for(taken + 1)


def test_full_spool_answers_in_the_senders_encoding(site):
    relay = small_spool(site, NOWHERE)
    fill(relay)
    reply = http.post(relay.port, "/v1/traces", BODY, "application/x-protobuf")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert reply.headers["content-type"] == "application/x-protobuf"
    assert reply.body.startswith(b"\x08\x0e\x12")  # google.rpc.Status, UNAVAILABLE


def test_gateway_without_a_broker(site):
    broker = site.broker()
    gateway = site.gateway(broker, broker_timeout="1s")
    wait_says(gateway, 200, "degraded; ")
    assert http.post(gateway.port, "/v1/ingest", b"{}").status == 202
    broker.kill9()
    wait_says(gateway, 503, "no broker")
    for path in ("/v1/ingest", "/v1/traces"):
        reply = http.post(gateway.port, path, b"{}")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert http.get(gateway.port, "/healthz").status == 200
    broker.start()
    wait_says(gateway, 200, "degraded; ")
    assert http.post(gateway.port, "/v1/ingest", b"{}").status == 202


def test_stopped_broker_costs_a_503_in_time(site):
    """A broker that hangs: the sender waits no longer than --broker-timeout and a little."""
    broker = site.broker()
    gateway = site.gateway(broker, broker_timeout="1s")
    wait_says(gateway, 200, "degraded; ")
    broker.pause()
    reply = http.post(gateway.port, "/v1/ingest", b"{}", timeout=15)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    wait_says(gateway, 503, "no broker")
    broker.resume()
    wait_says(gateway, 200, "degraded; ")
    assert http.post(gateway.port, "/v1/ingest", b"{}").status == 202


# --- file descriptors ---

def allow_descriptors(process, soft):
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_few_descriptors_left_are_told_behind_the_first_word(site):
    """Both network libraries spin when there are none, so an operator should hear of it before."""
    with Upstream() as up:
        relay = site.relay(upstream=[up.url], threads=16)
        wait_says(relay, 200, "ok")
        used, most = relay.metric("mcpd_open_fds"), relay.metric("mcpd_max_fds")
        here = len(os.listdir(f"/proc/{relay.pid}/fd"))
        assert abs(used - here) <= 6 and most == resource.prlimit(relay.pid, resource.RLIMIT_NOFILE)[0]
        for room, told in ((1.1, True), (2, False)):
            allow_descriptors(relay, int(used * room))
            wait_until(lambda: (re.fullmatch(r"ok; fds \d+ %", relay.readyz()[1]) is not None) == told,
                       10, lambda: f"{told} at {room}, is {relay.readyz()}")
            assert relay.readyz()[0] == 200
            assert relay.metric("mcpd_max_fds") == int(used * room)


def test_no_descriptor_left_is_told_to_those_who_are_connected(site):
    with Upstream() as up:
        relay = site.relay(upstream=[up.url], threads=16)
        wait_says(relay, 200, "ok")
        with http.Connection(relay.port) as connection:
            wait_until(lambda: connection.request("GET", "/readyz").status == 200, 5, "connected")
            allow_descriptors(relay, 3)
            wait_until(lambda: b"; fds 100 %" in connection.request("GET", "/readyz").body, 10,
                       lambda: "all are in use")
            allow_descriptors(relay, 4096)
            wait_until(lambda: connection.request("GET", "/readyz").body == b"ok", 10,
                       lambda: "none is missing")
