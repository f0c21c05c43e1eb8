# SPDX-License-Identifier: MIT
"""docs/spool-format.md is the truth: a reader written from it finds every request, byte for byte, in
the spool of a relay that was stopped, killed, or refused by its upstream."""
import msgpack

from lib import spool_reader
from lib.sender import Load
from lib.telemetry import Request
from lib.upstream import Reply, Upstream
from lib.wait import wait_until


def requests(count):
    for number in range(count):
        yield Request("/v1/ingest?n=1", f"body {number} ".encode() * (1 + number % 90),
                      "application/json", key=f"key-{number}")


def fill(relay, count):
    load = Load(relay.port, requests(count), connections=4).run()
    assert len(load.accepted) == count
    return {sent.request.key: sent.request.body for sent in load.accepted}


def by_key(waiting):
    found = {}
    for _, record in waiting:
        meta = msgpack.unpackb(record.meta)
        assert meta["target"] == "/v1/ingest?n=1"
        found[meta["key"]] = record.body
    return found


def test_everything_waiting_can_be_read(site):
    relay = site.relay(upstream="http://127.0.0.1:9", spool_max_bytes="4MiB",
                       max_body_bytes="64KiB")
    sent = fill(relay, 1200)
    relay.kill9()
    waiting, seals = spool_reader.read_folder(relay.spool / "seg", spool_reader.DATA)
    assert by_key(waiting) == sent and len(waiting) == len(sent)
    assert len(seals) >= 2 and seals[-1] is None and all(seals[:-1])
    headers = {header.number: header for header, _ in waiting}
    for header in headers.values():
        if header.previous in headers:
            mine = [r for h, r in waiting if h.number == header.previous]
            assert header.previous_records == len(mine)
            assert header.previous_end > mine[-1].offset
    relay.start()
    assert relay.stop() == 0
    again, seals = spool_reader.read_folder(relay.spool / "seg", spool_reader.DATA)
    assert by_key(again) == sent and all(seals)


def test_refused_requests_can_be_read(site):
    with Upstream() as upstream:
        upstream.always(Reply(400, body=b'{"error":"no"}'))
        relay = site.relay(upstream=upstream.url)
        sent = fill(relay, 40)
        wait_until(lambda: relay.metric("mcpd_relay_dead_letter_total") == 40, 30,
                   lambda: f"all refused\n{relay.log()}")
        relay.kill9()
        dead, _ = spool_reader.read_folder(relay.spool / "dead", spool_reader.DEAD)
        assert by_key(dead) == sent and len(dead) == 40
        for _, record in dead:
            _, _, status, reason, url, excerpt = record.note
            assert status == 400 and url == upstream.url.encode() and excerpt == b'{"error":"no"}'
            assert reason
            (segment, _, _), arrival = record.origin
            assert segment >= 1 and 0 < arrival <= record.time_ns
