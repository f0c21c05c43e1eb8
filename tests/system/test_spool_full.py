# SPDX-License-Identifier: MIT
"""A full spool refuses with 503 and Retry-After: 5, says so in /readyz, keeps what it has, and takes
requests again when there is room."""
import os
import time

from lib import http
from lib.sender import Load
from lib.telemetry import Request
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

LIMIT = 4 * 1024 * 1024
BODY = 32 * 1024


def bodies(count):
    for number in range(count):
        yield Request("/v1/ingest", f"{number:08}".encode() + os.urandom(BODY - 8),
                      "application/octet-stream")


def full_relay(site, upstream):
    relay = site.relay(upstream=upstream.url, max_body_bytes="64KiB", spool_max_bytes=LIMIT)
    load = Load(relay.port, bodies(200), connections=4).run()
    return relay, load


def used_on_disk(relay):
    return sum(entry.stat().st_blocks * 512 for entry in (relay.spool / "seg").iterdir())


def test_full_spool_refuses_until_there_is_room(site):
    with Upstream() as upstream:
        upstream.always(Reply(503))
        relay, load = full_relay(site, upstream)
        assert load.statuses().keys() == {202, 503}
        refused = [sent for sent in load.sent if sent.status == 503]
        assert all(sent.reply.headers["retry-after"] == "5" for sent in refused)
        assert relay.metric("mcpd_relay_refused_full_total") >= len(refused)
        assert relay.metric("mcpd_relay_spool_bytes") <= LIMIT
        assert used_on_disk(relay) <= LIMIT
        assert len(load.accepted) * BODY > LIMIT / 2, "most of the space is for requests"
        wait_until(lambda: relay.readyz()[0] == 503, 5, relay.readyz)
        assert relay.readyz()[1].startswith("full")

        upstream.always(Reply(200))
        relay.wait_drained(60)
        wait_until(lambda: relay.readyz() == (200, "ok"), 10, relay.readyz)
        wait_until(lambda: http.post(relay.port, "/v1/ingest", b"x" * BODY).status == 202, 5,
                   "requests are taken again")
        relay.wait_drained()
        delivered = {request.body for request in upstream.requests if request.method == "POST"}
        assert all(sent.request.body in delivered for sent in load.accepted)


def test_full_spool_is_still_full_after_a_restart(site):
    """The limit counts what is on disk, not what this process wrote."""
    with Upstream() as upstream:
        upstream.always(Reply(503))
        relay, load = full_relay(site, upstream)
        relay.kill9()
        relay.start()
        again = Load(relay.port, bodies(100), connections=4).run()
        assert used_on_disk(relay) <= LIMIT
        assert len(again.accepted) < 40, "hardly any room was left"
        upstream.always(Reply(200))
        relay.wait_drained(60)
        delivered = {request.body for request in upstream.requests if request.method == "POST"}
        for sent in load.accepted + again.accepted:
            assert sent.request.body in delivered


def head(length, *more):
    lines = ["POST /v1/ingest HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def test_known_full_spool_refuses_before_the_body_is_read(site):
    """A sender need not push a body through that will not be taken; each refusal is counted once."""
    with Upstream() as upstream:
        upstream.always(Reply(503))
        relay, _ = full_relay(site, upstream)
        wait_until(lambda: relay.readyz()[1].startswith("full"), 5, relay.readyz)
        before = relay.metric("mcpd_relay_refused_full_total")
        for number, more in enumerate([(), ("Expect: 100-continue",)], 1):
            with http.Connection(relay.port, timeout=10) as connection:
                connection.send(head(60_000, *more))  # and no body
                reply = connection.reply()
                assert (reply.status, reply.headers["retry-after"]) == (503, "5")
                assert b"spool_full" in reply.body and reply.headers["connection"] == "close"
            assert relay.metric("mcpd_relay_refused_full_total") == before + number
        with http.Connection(relay.port, timeout=10) as connection:
            connection.send(head(60_000) + b"x" * 60_000)  # all at once: the answer is not lost
            assert connection.reply().status == 503


def test_spool_at_its_limit_goes_on_taking_what_deliveries_make_room_for(site):
    with Upstream() as upstream:
        upstream.always(Reply(503))
        relay, _ = full_relay(site, upstream)
        upstream.always(Reply(200, delay=0.05))
        load = Load(relay.port, bodies(100_000), connections=4).start()
        for _ in range(3):
            taken = len(load.accepted)
            wait_until(lambda: len(load.accepted) > taken, 10,
                       lambda: f"more than {taken} are taken\n{relay.log()}")
            time.sleep(1)
        load.stop()
        assert load.statuses().keys() <= {202, 503}
        upstream.always(Reply(200))
        relay.wait_drained(60)
        delivered = {request.body for request in upstream.requests if request.method == "POST"}
        assert all(sent.request.body in delivered for sent in load.accepted)
