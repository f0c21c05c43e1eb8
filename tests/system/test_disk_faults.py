# SPDX-License-Identifier: MIT
"""A failed write or sync of the spool: every request that waited for it gets 503, that file is never
synced again, nothing of the batch is delivered in this run, and what is answered 2xx afterwards is
in another file and survives kill -9."""
import threading
import time

import pytest

from lib import http
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

SEGMENTS = "*/seg/*.log"


@pytest.fixture
def upstream():
    with Upstream() as the_upstream:
        the_upstream.always(Reply(200))
        yield the_upstream


def stays(condition, seconds):
    end = time.monotonic() + seconds
    while condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


MARK = b"mcR1\x02"  # beginning of the record that is written once after each busy time


def has_mark(relay):
    return any(MARK in path.read_bytes() for path in (relay.spool / "seg").glob("*.log"))


@pytest.fixture
def relay(site, upstream):
    """A relay whose disk fails when the test says so. Its first segment is open and idle, so that the
    next write is the next request's."""
    script = site.folder / "faults"
    process = site.relay(upstream=upstream.url, binary="mcpd-faults",
                         env={"MCPD_FSIO": f"@{script}",
                              "MCPD_FSIO_COUNTS": str(site.folder / "fired")})
    process.arm = script.write_text
    process.fired = lambda: (site.folder / "fired").exists()
    assert http.post(process.port, "/v1/ingest", b"first").status == 202
    upstream.wait_for(1)
    wait_until(lambda: has_mark(process), 5, "the mark of an idle segment is written")
    return process


def post_at_once(relay, bodies):
    """One thread a body; {body: reply}."""
    replies = {}

    def post(body):
        replies[body] = http.post(relay.port, "/v1/ingest", body)
    threads = [threading.Thread(target=post, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(replies) == len(bodies)
    return replies


def bodies_of(upstream):
    return {request.body for request in upstream.requests if request.method == "POST"}


def check_recovered(relay, upstream, refused):
    """A new segment takes requests; what was refused was not delivered and is not."""
    later = [f"later {number}".encode() for number in range(12)]
    wait_until(lambda: http.post(relay.port, "/v1/ingest", b"again").status == 202, 10,
               "a new segment takes requests")
    assert {reply.status for reply in post_at_once(relay, later).values()} == {202}
    assert relay.metric("mcpd_spool_write_errors_total") == 1
    wait_until(lambda: relay.readyz()[0] == 200 and "1 write error" in relay.readyz()[1], 5,
               relay.readyz)
    relay.wait_drained()
    assert {b"again", *later} <= bodies_of(upstream)
    assert not bodies_of(upstream) & set(refused), "a refused request was delivered"


def test_failed_sync_refuses_the_whole_batch(relay, upstream):
    """The first sync is slow, so that all others gather in the second batch, which fails."""
    relay.arm(f"sync:{SEGMENTS}@1=delay=2500;sync:{SEGMENTS}@2=EIO")
    opener = threading.Thread(target=http.post, args=(relay.port, "/v1/ingest", b"opener"))
    opener.start()
    wait_until(relay.fired, 5, "the slow sync has begun")
    replies = post_at_once(relay, [f"waiting {number}".encode() for number in range(12)])
    opener.join(10)
    for body, reply in replies.items():
        assert reply.status == 503 and reply.headers["retry-after"] == "1", (body, reply)
    check_recovered(relay, upstream, replies)
    assert b"opener" in bodies_of(upstream)


@pytest.mark.parametrize("action", ["EIO", "ENOSPC", "short"])
def test_failed_write_refuses_its_batch(relay, upstream, action):
    """Many requests come at the same moment; the first batch of them cannot be written."""
    relay.arm(f"write:{SEGMENTS}@1={action}")
    relay.pause()
    bodies = [f"waiting {number}".encode() for number in range(40)]
    threading.Timer(0.5, relay.resume).start()
    replies = post_at_once(relay, bodies)
    refused = [body for body, reply in replies.items() if reply.status != 202]
    assert relay.fired() and refused
    for body in refused:
        assert replies[body].status == 503 and "retry-after" in replies[body].headers
    check_recovered(relay, upstream, refused)
    assert set(bodies) - set(refused) <= bodies_of(upstream)


def test_accepted_after_a_failed_sync_survives_kill9(relay, upstream):
    relay.arm(f"sync:{SEGMENTS}@1=EIO")
    assert http.post(relay.port, "/v1/ingest", b"refused").status == 503
    upstream.always(Reply(503))
    later = [f"later {number}".encode() for number in range(50)]
    wait_until(lambda: http.post(relay.port, "/v1/ingest", b"again").status == 202, 10,
               "a new segment takes requests")
    assert {reply.status for reply in post_at_once(relay, later).values()} == {202}
    relay.kill9()
    upstream.always(Reply(200))
    relay.start()
    relay.wait_drained()
    assert {b"again", *later} <= bodies_of(upstream)


def test_disk_that_keeps_failing_is_never_acknowledged(relay, upstream):
    """No continuing from memory: 503 until the disk works, and /readyz says why."""
    relay.arm(f"sync:{SEGMENTS}@1+=EIO")
    for number in range(5):
        assert http.post(relay.port, "/v1/ingest", f"{number}".encode()).status == 503
    wait_until(lambda: relay.readyz() is None or relay.readyz()[0] == 503, 10, relay.readyz)
    assert bodies_of(upstream) == {b"first"}


def test_known_write_error_refuses_early_and_takes_requests_again_by_itself(relay, upstream):
    """No new file can be made after the first has failed; when one can, nobody needs to send for the
    relay to find out."""
    relay.arm(f"sync:{SEGMENTS}@1=EIO;open:{SEGMENTS}@1+=EACCES")
    for _ in range(2):
        assert http.post(relay.port, "/v1/ingest", b"refused").status == 503
    wait_until(lambda: relay.readyz()[1].startswith("write error"), 10, relay.readyz)
    with http.Connection(relay.port, timeout=4) as connection:
        connection.send(b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        reply = connection.reply()  # the body never comes
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert relay.metric("mcpd_relay_refused_full_total") == 0
    relay.arm("")
    wait_until(lambda: relay.readyz()[0] == 200, 20, relay.readyz)
    assert http.post(relay.port, "/v1/ingest", b"taken").status == 202
    relay.wait_drained()
    assert b"taken" in bodies_of(upstream) and b"refused" not in bodies_of(upstream)


def test_record_the_disk_does_not_give_for_a_while_is_delivered_later(relay, upstream):
    """A passing read error is no damage: nothing may be given up that may still be read."""
    upstream.stop()
    bodies = [f"waiting {number}".encode() for number in range(20)]
    assert {reply.status for reply in post_at_once(relay, bodies).values()} == {202}
    relay.arm(f"read:{SEGMENTS}@1+=EIO")
    upstream.start()
    wait_until(relay.fired, 20, "a read has failed")
    assert not bodies_of(upstream) & set(bodies)
    relay.arm("")
    wait_until(lambda: set(bodies) <= bodies_of(upstream), 30, "all are delivered")
    relay.wait_drained()
    assert relay.metric("mcpd_spool_corrupt_records_total") == 0
    assert relay.readyz() == (200, "ok")


@pytest.mark.parametrize("fault", [f"read:{SEGMENTS}@2=EIO", "write:*/dead/*.log@2=EIO",
                                   "sync:*/dead/*.log@2=EIO", "open:*/dead/*.log@1=EMFILE"])
def test_dead_letter_that_cannot_be_written_is_written_later(relay, upstream, fault):
    """The record is read once to be leased and once more for dead/."""
    upstream.always(Reply(400))
    relay.arm(fault)
    assert http.post(relay.port, "/v1/ingest", b"refused").status == 202
    relay.wait_metric("mcpd_relay_dead_letter_total", 1, 20)
    assert relay.fired()
    relay.wait_drained()
    assert relay.metric("mcpd_spool_corrupt_records_total") == 0
    assert any(b"refused" in path.read_bytes() for path in (relay.spool / "dead").glob("*.log"))


def test_disk_without_space_is_told_and_so_is_its_end(site, upstream):
    """The file system refuses to reserve space, whatever it says is free: who is refused must be told
    that the relay is not ready."""
    script = site.folder / "faults"
    script.write_text(f"allocate:{SEGMENTS}@1+=ENOSPC")
    relay = site.relay(upstream=upstream.url, binary="mcpd-faults", env={"MCPD_FSIO": f"@{script}"})
    relay.wait_ready()
    reply = http.post(relay.port, "/v1/ingest", b"refused")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    wait_until(lambda: relay.readyz() == (503, "full; low disk"), 2, relay.readyz)
    assert stays(lambda: relay.readyz()[0] == 503, 6), "ready, though there is no space"
    script.write_text("")
    wait_until(lambda: relay.readyz() == (200, "ok"), 10, relay.readyz)
    assert http.post(relay.port, "/v1/ingest", b"taken").status == 202
    relay.wait_drained()
    assert bodies_of(upstream) == {b"taken"}
