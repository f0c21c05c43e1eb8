# SPDX-License-Identifier: MIT
"""What a relay refused is never delivered: not at once, not after a restart, not as an empty body. The
sender has been told no, and decides itself what becomes of its data."""
import uuid

import pytest

from lib import http
from lib.sender import Load
from lib.telemetry import Request
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

KEY = "a-key-of-more-than-16"
MAX_BODY = 64 * 1024
SPOOL = 4 * 1024 * 1024


def marked(size=200):
    """A body that no other test, and no other request, has."""
    return uuid.uuid4().hex.encode().ljust(size, b".")


def head(length, *more):
    lines = ["POST /v1/ingest HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Authorization: Bearer {KEY}", f"Content-Length: {length}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def post(relay, body, path="/v1/ingest", **headers):
    return http.post(relay.port, path, body, headers=headers).status


def cut(relay, body):
    """Says more than it sends and hangs up in the middle."""
    answer = http.raw_exchange(relay.port, head(len(body) + 10) + body, half_close=True)
    return http.statuses(answer)[0]


def stated_twice(relay, body):
    answer = http.raw_exchange(relay.port, head(len(body), "Content-Length: 5") + body)
    return http.statuses(answer)[0]


BEARER = {"Authorization": f"Bearer {KEY}"}
REFUSALS = {
    "no key": (401, lambda relay, body: post(relay, body)),
    "wrong key": (401, lambda relay, body: post(relay, body, Authorization="Bearer wrong")),
    "wrong key, OTLP": (401, lambda relay, body: post(relay, body, "/v1/traces")),
    "too large": (413, lambda relay, body: post(relay, body.ljust(MAX_BODY + 1), **BEARER)),
    "cut body": (503, cut),
    "length stated twice": (400, stated_twice),
    "probe path": (405, lambda relay, body: post(relay, body, "/readyz", **BEARER)),
    "key for retries with a control byte": (
        400, lambda relay, body: post(relay, body, **BEARER, **{"Idempotency-Key": "a\x01b"})),
}


def delivered(upstream):
    return [request.body for request in upstream.requests]


def test_refused_requests_are_not_delivered(site):
    """Each kind of refusal between two that are accepted, on a relay that is then killed and started
    again."""
    with Upstream() as upstream:
        upstream.stop()
        relay = site.relay(upstream=upstream.url, ingest_key=KEY, max_body_bytes=MAX_BODY,
                           spool_max_bytes=SPOOL)
        accepted, refused = [marked()], {}
        assert post(relay, accepted[0], **BEARER) == 202
        for name, (status, send) in REFUSALS.items():
            accepted.append(marked())
            refused[name] = marked()
            assert send(relay, refused[name]) == status, name
            assert post(relay, accepted[-1], **BEARER) == 202, f"after {name}"
        relay.kill9()
        relay.start()
        upstream.start()
        relay.wait_drained()
        got = delivered(upstream)
        for name, body in refused.items():
            assert not [one for one in got if body[:32] in one], f"{name} was delivered"
        assert sorted(got) == sorted(accepted)
        assert relay.metric("mcpd_relay_dead_letter_total") == 0


def test_what_a_full_spool_refused_is_not_delivered(site):
    """Refusals before, during and after; each accepted body arrives, and nothing else does."""
    with Upstream() as upstream:
        upstream.always(Reply(503))
        relay = site.relay(upstream=upstream.url, max_body_bytes=MAX_BODY, spool_max_bytes=SPOOL,
                           lease="2s")
        requests = [Request("/v1/ingest", marked(30_000), "application/octet-stream")
                    for _ in range(400)]
        load = Load(relay.port, requests[:300], connections=4).run()
        refused = [sent for sent in load.sent if not sent.is_accepted]
        assert len(refused) > 100 and load.accepted
        for sent in refused:
            assert sent.status == 503 and sent.reply.headers["retry-after"] == "5", sent.reply
        wait_until(lambda: relay.readyz()[0] == 503, 5, relay.readyz)
        assert relay.readyz()[1].startswith("full")
        relay.kill9()
        relay.start()
        again = Load(relay.port, requests[300:], connections=4).run()
        upstream.forget()
        upstream.always(Reply(200))
        relay.wait_drained(60)
        accepted = {sent.request.body for sent in load.accepted + again.accepted}
        got = delivered(upstream)
        assert set(got) == accepted, (len(accepted), len(set(got)))
        assert relay.metric("mcpd_relay_refused_full_total") > 0


@pytest.mark.parametrize("fault", ["write:*.log@20+=ENOSPC", "write:*.log@20+=short",
                                   "allocate:*.log@1+=ENOSPC"])
def test_what_a_full_disk_refused_is_not_delivered_empty(site, tmp_path, fault):
    """The disk ends before the limit: half-written records are cut off, not handed on. A refused
    request may only ever arrive whole."""
    script = tmp_path / "faults"
    with Upstream() as upstream:
        upstream.stop()
        relay = site.relay(upstream=upstream.url, binary="mcpd-faults", max_body_bytes=MAX_BODY,
                           spool_max_bytes="64MiB", lease="2s",
                           env={"MCPD_FSIO": f"@{script}"})
        before = [marked(20_000) for _ in range(10)]
        assert [post(relay, body) for body in before] == [202] * 10
        script.write_text(fault)
        during = {body: post(relay, body) for body in (marked(20_000) for _ in range(60))}
        assert set(during.values()) <= {202, 503} and 503 in during.values()
        script.write_text("")
        relay.kill9()
        relay.start()
        wait_until(lambda: relay.readyz()[0] == 200, 20, relay.readyz)
        after = marked()
        wait_until(lambda: post(relay, after) == 202, 20, "accepted again", every=0.2)
        upstream.start()
        relay.wait_drained(30)
        got = delivered(upstream)
        taken = set(before) | {body for body, status in during.items() if status == 202} | {after}
        assert taken <= set(got), f"{len(taken - set(got))} lost"
        assert set(got) <= taken, f"{len(set(got) - taken)} that were refused"
