# SPDX-License-Identifier: MIT
"""What travels with a request, and what must not."""
import gzip

from lib import http
from lib.upstream import Upstream

SENDER_KEY = "the-senders-own-secret-key"
OUR_KEY = "the-relays-key-for-upstreams"
SENT = {
    "Content-Type": "application/json; charset=utf-8",
    "Content-Encoding": "gzip",
    "Authorization": f"Bearer {SENDER_KEY}",
    "User-Agent": "travel/1.0",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "a=b",
    "Cookie": "session=not-for-anybody-else",
    "X-Forwarded-For": "10.1.2.3",
}
BODY = gzip.compress(b'{"events":[]}', mtime=0)


def send(relay, up, target="/v1/ingest?project=a%20b&x=%00", headers=None):
    """The request as it reached the upstream."""
    up.forget()
    with http.Connection(relay.port) as connection:
        assert connection.request("POST", target, BODY,
                                  SENT if headers is None else headers).status == 202
    return up.wait_for(1)[0]


def on_disk(relay):
    return b"".join(path.read_bytes() for path in relay.spool.rglob("*") if path.is_file())


def test_senders_key_is_passed_on_without_an_upstream_key(site):
    with Upstream() as up:
        relay = site.relay(upstream=[up.url])
        request = send(relay, up)
        for name in ("Content-Type", "Content-Encoding", "Authorization", "traceparent",
                     "tracestate"):
            assert request.header(name) == SENT[name], name
        assert request.target == "/v1/ingest?project=a%20b&x=%00"
        assert request.body == BODY
        for name in ("Cookie", "X-Forwarded-For"):
            assert request.header(name) is None, name
        request = send(relay, up, headers={"x-mcpd-key": SENDER_KEY})
        assert request.header("x-mcpd-key") == SENDER_KEY
        assert request.header("Authorization") is None
        assert request.header("Content-Type") is None


def test_senders_key_is_not_even_stored_with_an_upstream_key(site):
    with Upstream() as up:
        relay = site.relay(upstream=[up.url], upstream_key=OUR_KEY)
        request = send(relay, up, headers={**SENT, "x-mcpd-key": SENDER_KEY})
        assert request.header("Authorization") == f"Bearer {OUR_KEY}"
        assert request.header("x-mcpd-key") is None
        assert b"project=a%20b" in on_disk(relay)  # the spool was looked into
        assert SENDER_KEY.encode() not in on_disk(relay)
        assert OUR_KEY.encode() not in on_disk(relay)
        assert SENDER_KEY not in relay.log() and OUR_KEY not in relay.log().split("\n", 1)[1]


def test_spool_is_for_the_relays_user_only(site):
    with Upstream() as up:
        relay = site.relay(upstream=[up.url])
        send(relay, up)
        files = [path for path in relay.spool.rglob("*") if path.is_file()]
        assert files
        for path in files:
            assert path.stat().st_mode & 0o077 == 0, path


def test_keys_of_requests(site):
    """The sender's own key wins; else one made of target, encoding and body, the same each time."""
    with Upstream() as up:
        relay = site.relay(upstream=[up.url])
        assert send(relay, up, headers={"Idempotency-Key": "own-1"}).key == "own-1"
        assert send(relay, up, headers={"Idempotency-Key": '"own-2"'}).key == "own-2"
        first = send(relay, up).key
        assert first.startswith("relay-") and len(first) == 70
        assert send(relay, up).key == first
        assert send(relay, up, headers={**SENT, "Content-Encoding": "GZIP "}).key == first
        assert send(relay, up, headers={}).key != first
        assert send(relay, up, target="/v1/ingest").key != first
