# SPDX-License-Identifier: MIT
"""--validate-otlp: what no daemon could read is refused at the door, in the request's own encoding, and
what one can read goes through untouched."""
import gzip
import json
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib import http
from lib.process import ROOT, Site
from lib.upstream import Reply, Upstream

PROTOBUF, JSON = "application/x-protobuf", "application/json"
PATHS = {"traces": "/v1/traces", "logs": "/v1/logs", "metrics": "/v1/metrics"}
DEEP = b"[" * 5000 + b"]" * 5000


def sent(name):
    return (ROOT / "tests" / "data" / "otlp" / name).read_bytes()


@pytest.fixture(scope="module", name="up")
def up_():
    with Upstream() as up:
        up.always(Reply(200))
        yield up


@pytest.fixture(scope="module", name="relay")
def relay_(tmp_path_factory, up):
    with Site(tmp_path_factory.mktemp("validate")) as site:
        yield site.relay(upstream=up.url, validate_otlp="on", max_body_bytes="64KiB", threads=64)


def bodies(up):
    return [request.body for request in up.requests if request.method == "POST"]


def status_of(reply):
    """(code, message) of google.rpc.Status in either encoding; protobuf read by hand: 1 varint below
    128, 2 text."""
    if reply.headers["content-type"] == JSON:
        status = json.loads(reply.body)
        return status["code"], status["message"]
    body = reply.body
    assert reply.headers["content-type"] == PROTOBUF and body[0] == 8 and body[2] == 18
    assert body[3] < 128 and len(body) == 4 + body[3]
    return body[1], body[4:].decode()


@pytest.mark.parametrize("signal", PATHS)
@pytest.mark.parametrize("kind,suffix", [(PROTOBUF, "pb"), (JSON, "json")])
@pytest.mark.parametrize("encode,headers", [
    (bytes, {}), (gzip.compress, {"Content-Encoding": "gzip"}),
    (zlib.compress, {"Content-Encoding": "deflate"})])
def test_what_an_sdk_sends_passes_unchanged(relay, up, signal, kind, suffix, encode, headers):
    body = encode(sent(f"sdk-{signal}.{suffix}"))
    reply = http.post(relay.port, PATHS[signal], body, kind, headers)
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    relay.wait_drained()
    found = [r for r in up.requests if r.body == body and r.target == PATHS[signal]]
    assert found and found[-1].header("Content-Type") == kind
    assert found[-1].header("Content-Encoding") == headers.get("Content-Encoding")


BAD = {
    "other bytes": (PROTOBUF, b"\xff" * 40, {}),
    "cut short": (PROTOBUF, sent("sdk-traces.pb")[:-3], {}),
    "no JSON": (JSON, b'{"resourceSpans":', {}),
    "another JSON value": (JSON, b'"text"', {}),
    "too deep": (JSON, DEEP, {}),
    "gzip cut short": (PROTOBUF, gzip.compress(sent("sdk-traces.pb"))[:-9],
                       {"Content-Encoding": "gzip"}),
    "not gzip at all": (PROTOBUF, sent("sdk-traces.pb"), {"Content-Encoding": "gzip"}),
    "gzip of other bytes": (PROTOBUF, gzip.compress(b"\xff" * 40), {"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("path", PATHS.values())
def test_what_is_no_otlp_gets_400_and_is_not_stored(relay, path, what):
    kind, body, headers = BAD[what]
    stored, refused = (relay.metric(f"mcpd_relay_{n}_total") for n in ("accepted", "refused_invalid"))
    reply = http.post(relay.port, path, body, kind, headers)
    code, message = status_of(reply)
    assert (reply.status, code) == (400, 3) and message
    assert reply.headers["content-type"] == kind and "retry-after" not in reply.headers
    assert relay.metric("mcpd_relay_accepted_total") == stored
    assert relay.metric("mcpd_relay_refused_invalid_total") == refused + 1


def test_what_was_refused_is_never_delivered(relay, up):
    relay.wait_drained()
    before = len(bodies(up))
    for kind, body, headers in BAD.values():
        assert http.post(relay.port, "/v1/traces", body, kind, headers).status == 400
    assert http.post(relay.port, "/v1/traces", b"{}", JSON).status == 200
    relay.wait_drained()
    assert bodies(up)[before:] == [b"{}"]


def test_a_small_body_that_becomes_a_large_one_gets_413(relay):
    before = relay.rss_bytes()
    for _ in range(8):
        reply = http.post(relay.port, "/v1/traces", gzip.compress(b"\0" * (32 << 20)), PROTOBUF,
                          {"Content-Encoding": "gzip"})
        assert (reply.status, status_of(reply)[0]) == (413, 8)
    assert relay.rss_bytes() < before + (16 << 20)


@pytest.mark.parametrize("path,kind,headers", [
    ("/v1/ingest", JSON, {}),                # no OTLP is promised there
    ("/v1/traces/", PROTOBUF, {}),
    ("/v1/traces", "text/plain", {}),        # a relay leaves types and encodings to the upstream
    ("/v1/traces", PROTOBUF, {"Content-Encoding": "br"}),
])
def test_what_it_cannot_judge_goes_to_the_upstream(relay, up, path, kind, headers):
    body = f"anything {path} {kind} {headers}".encode()
    assert http.post(relay.port, path, body, kind, headers).status in (200, 202)
    relay.wait_drained()
    assert body in bodies(up)


def test_single_bad_items_are_the_daemons_business(relay, up):
    """A batch that can be read is not refused for what is in it."""
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "00" * 16, "spanId": "zz", "name": "x"}]}]}]}).encode()
    assert http.post(relay.port, "/v1/traces", body, JSON).status == 200
    relay.wait_drained()
    assert body in bodies(up)


def test_an_empty_request_succeeds(relay):
    assert http.post(relay.port, "/v1/logs", b"", PROTOBUF).status == 200
    assert http.post(relay.port, "/v1/logs", b"{}", JSON).status == 200


def test_good_and_bad_bodies_side_by_side_are_not_mixed_up(relay, up):
    """More senders than decoders."""
    good = sent("sdk-traces.pb")
    cases = [(good + b"\xc2\x3e\x02%02d" % n, 200) if n % 2 else (b"\xff%02d" % n * 99, 400)
             for n in range(64)]  # an unknown field makes each good one another
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda c: http.post(relay.port, "/v1/traces", c[0], PROTOBUF), cases))
    assert [r.status for r in replies] == [status for _, status in cases]
    relay.wait_drained()
    arrived = bodies(up)
    assert all((body in arrived) == (status == 200) for body, status in cases)


def test_without_the_option_the_bytes_are_not_looked_at(site, up):
    relay = site.relay(upstream=up.url)
    assert http.post(relay.port, "/v1/traces", b"\xff" * 40, PROTOBUF).status == 200
    assert relay.metric("mcpd_relay_refused_invalid_total") == 0
