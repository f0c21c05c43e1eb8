# SPDX-License-Identifier: MIT
"""What one answer of an upstream means for the request that got it, seen from outside a relay with
two scripted upstreams, A before B."""
import hashlib
import pathlib
import random
import time

import pytest

from lib import http
from lib.upstream import (Early, Hang, Raw, Reply, Reset, junk, key_is, path_is, truncated)
from lib.wait import wait_until

DATA = pathlib.Path(__file__).parents[1] / "data" / "otlp"
PATH = "/v1/ingest"


def send(relay, body=b"{}", path=PATH, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    assert http.post(relay.port, path, body, headers=headers).status in (200, 202)


def wait_settled(relay, count):
    """Until so many requests were delivered or refused for good."""
    wait_until(lambda: counts(relay)["delivered"] + counts(relay)["dead_letter"] >= count, 20,
               lambda: f"{count} settled, {counts(relay)}")


def counts(relay):
    return {name: relay.metric(f"mcpd_relay_{name}_total")
            for name in ("delivered", "failed_attempts", "failovers", "dead_letter")}


RETRYABLE = {
    "408": Reply(408), "429": Reply(429), "500": Reply(500), "502": Reply(502),
    "503": Reply(503), "504": Reply(504), "507": Reply(507), "522": Reply(522),
    "redirect": Reply(302, {"Location": "/elsewhere"}), "proxy": Reply(407),
    "no HTTP": junk(), "status 700": Reply(700), "old HTTP": Raw(b"hello\n"),
    "closed": Raw(b""), "reset": Reset(), "reset before the body": Reset(early=True),
    "reset in the head": Reset(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "cut success": truncated(200), "continue and no more": Raw(b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("what", RETRYABLE)
def test_a_failed_attempt_goes_to_the_next_upstream_at_once(site, a, b, what):
    relay = site.relay(upstream=[a.url, b.url])
    a.next(RETRYABLE[what])
    send(relay, b"the body", Idempotency_Key="one")
    (second,) = b.wait_for(1, 10)
    wait_settled(relay, 1)
    (first,) = a.requests
    assert second.body == b"the body" and second.key == "one"
    assert second.headers[1:] == first.headers[1:]  # all but Host
    assert counts(relay) == {"delivered": 1, "failed_attempts": 1, "failovers": 1,
                             "dead_letter": 0}


def test_a_timeout_goes_to_the_next_upstream(site, a, b):
    relay = site.relay(upstream=[a.url + " timeout=300ms", b.url])
    a.next(Hang())
    send(relay)
    wait_settled(relay, 1)
    assert a.requests[0].key == b.requests[0].key
    assert counts(relay)["dead_letter"] == 0


FINAL = {
    "400": Reply(400), "401": Reply(401), "403": Reply(403), "404": Reply(404),
    "410": Reply(410), "422": Reply(422), "431": Reply(431), "501": Reply(501),
    "413 before the body is read": Early(413),
}


@pytest.mark.parametrize("what", FINAL)
def test_a_final_refusal_is_dead_after_one_attempt(site, a, b, what):
    """Offered to nobody else, and the upstream is not blamed: the next request goes there."""
    relay = site.relay(upstream=[a.url, b.url])
    a.next(FINAL[what])
    send(relay, b"x" * 4_000_000, Idempotency_Key="bad")
    relay.wait_metric("mcpd_relay_dead_letter_total", 1)
    send(relay, Idempotency_Key="good")
    wait_settled(relay, 2)
    assert a.by_key() == {"bad": 1, "good": 1} and not b.requests
    assert counts(relay) == {"delivered": 1, "failed_attempts": 1, "failovers": 0,
                             "dead_letter": 1}
    refusals = [line for line in relay.log().splitlines() if "request.refused" in line]
    assert len(refusals) == 1 and " bad " in refusals[0] and a.url in refusals[0]


def test_a_refusal_lost_to_a_reset_is_found_out(site, a):
    """An upstream that does not read a body it refuses may reset the connection under its answer.
    A large request that failed asks before it sends its body again."""
    relay = site.relay(upstream=[a.url])
    a.next(Reset(early=True), Early(413, rude=True))
    send(relay, b"x" * 4_000_000)
    relay.wait_metric("mcpd_relay_dead_letter_total", 1)
    first, second = a.requests
    assert first.header("Expect") is None and second.header("Expect") == "100-continue"


def test_an_upstream_that_knows_no_expect_is_not_asked_again(site, a):
    relay = site.relay(upstream=[a.url])
    a.next(Reset(), Early(417), Reply(200))
    send(relay, b"x" * 100_000)
    wait_settled(relay, 1)
    assert [request.header("Expect") for request in a.requests] == [None, "100-continue", None]
    assert counts(relay)["failed_attempts"] == 1


@pytest.mark.parametrize("answer", [Reply(409), Reply(425),
                                    Reply(503, {"mcpd-wait": "in-flight"})])
def test_another_copy_being_stored_is_waited_for(site, a, b, answer):
    relay = site.relay(upstream=[a.url, b.url])
    a.next(answer)
    send(relay, Idempotency_Key="twin")
    first, second = a.wait_for(2)
    wait_settled(relay, 1)
    assert second.at - first.at >= 0.95 and second.key == "twin"
    assert not b.requests and counts(relay)["failovers"] == 0


TWO_SECONDS = {
    "seconds": [("Retry-After", "2")],
    "a date of a clock that is years behind": [("Date", "Thu, 01 Jan 2015 00:00:00 GMT"),
                                               ("Retry-After", "Thu, 01 Jan 2015 00:00:02 GMT")],
    "two of them": [("Retry-After", "3600"), ("Retry-After", "2")],
}


@pytest.mark.parametrize("how", TWO_SECONDS)
def test_a_retry_after_is_kept_to(site, a, b, how):
    relay = site.relay(upstream=[a.url, b.url])
    a.next(Reply(429, TWO_SECONDS[how]))
    send(relay)
    refused = a.wait_for(1)[0]

    def send_until_a_gets_it():
        send(relay)
        return len(a.requests) > 1

    wait_until(send_until_a_gets_it, 10, "A is used again", every=0.05)
    assert a.requests[1].at - refused.at >= 2.0
    assert len(b.requests) > 10
    assert counts(relay)["dead_letter"] == 0


def test_a_wrong_key_of_ours_keeps_the_requests(site, a):
    """A rotated --upstream-key must not empty the spool into dead/."""
    relay = site.relay(upstream=[a.url], upstream_key="the-old-key")
    a.always(Reply(401))
    for number in range(20):
        send(relay, Idempotency_Key=f"k{number}")
    wait_until(lambda: "upstream.cooled" in relay.log(), 10, "A cools")
    relay.wait_metric("mcpd_relay_spool_entries", 20)
    assert counts(relay)["dead_letter"] == 0
    assert len(a.requests) <= 4  # those that were under way together
    relay.stop()
    a.always(Reply(200))
    relay.options["upstream_key"] = "the-new-key"
    relay.start()
    wait_settled(relay, 20)
    assert len(a.by_key()) == 20
    assert a.requests[-1].header("Authorization") == "Bearer the-new-key"
    log = "".join(line for line in relay.log().splitlines() if not line.startswith("--- start"))
    assert "the-old-key" not in log and "the-new-key" not in log


def test_the_senders_key_is_passed_on_or_replaced_by_ours(site, a, b):
    relay = site.relay(upstream=[a.url])
    send(relay, b"1", Authorization="Bearer of-the-sender", Idempotency_Key="1")
    send(relay, b"2", x_mcpd_key="also-the-senders", Idempotency_Key="2")
    a.wait_for(2)
    got = {request.key: request for request in a.requests}
    assert got["1"].header("Authorization") == "Bearer of-the-sender"
    assert got["2"].header("x-mcpd-key") == "also-the-senders"

    relay = site.relay(upstream=[b.url], upstream_key="ours")
    send(relay, b"1", Authorization="Bearer of-the-sender", x_mcpd_key="also-the-senders")
    (request,) = b.wait_for(1)
    assert request.header("Authorization") == "Bearer ours"
    assert request.header("x-mcpd-key") is None


def test_an_upstream_that_refuses_everything_is_braked(site, a):
    """100 refusals in a row by path or key speak against the upstream: what follows is kept."""
    a.always(Reply(404))
    relay = site.relay(upstream=[a.url])
    for number in range(130):
        send(relay, Idempotency_Key=f"k{number}")
    relay.wait_metric("mcpd_relay_dead_letter_total", 100)
    wait_until(lambda: "refusals at" in (relay.readyz() or (0, ""))[1], 10,
               lambda: f"/readyz tells it, says {relay.readyz()}")
    relay.wait_metric("mcpd_relay_spool_entries", 30)
    assert counts(relay)["dead_letter"] == 100
    assert relay.log().count("upstream.refuses_all") == 1


def test_what_an_upstream_left_out_is_counted_and_not_sent_again(site, a):
    relay = site.relay(upstream=[a.url])
    a.next(Reply(200, {"Content-Type": "application/json"},
                 b'{"partialSuccess":{"rejectedSpans":"3"}}'),
           Reply(200, {"Content-Type": "application/x-protobuf"}, b"\x0a\x02\x08\x04"))
    for key in ("1", "2", "3"):
        send(relay, path="/v1/traces", Idempotency_Key=key)
    wait_settled(relay, 3)
    assert relay.metric("mcpd_relay_rejected_items_total") == 7
    assert len(a.requests) == 3 and "request.partly_rejected" in relay.log()


def test_a_long_answer_is_not_read_to_its_end(site, a):
    relay = site.relay(upstream=[a.url])
    a.next(Reply(200, body=b"x" * 20_000_000), Reply(400, body=b"y" * 20_000_000))
    send(relay, Idempotency_Key="1")
    relay.wait_metric("mcpd_relay_delivered_total", 1)
    send(relay, Idempotency_Key="2")
    relay.wait_metric("mcpd_relay_dead_letter_total", 1)
    assert len(a.requests) == 2


SDK = [("/v1/traces", "sdk-traces.pb", {}), ("/v1/logs", "sdk-logs.pb", {}),
       ("/v1/metrics", "sdk-metrics.pb", {}), ("/v1/traces", "sdk-traces.json", {}),
       ("/v1/logs", "sdk-logs.json", {}), ("/v1/metrics", "sdk-metrics.json", {}),
       ("/v1/traces", "sdk-traces.pb.gz", {"Content-Encoding": "gzip"})]


@pytest.mark.parametrize("path,name,extra", SDK)
def test_a_request_arrives_byte_for_byte(site, a, path, name, extra):
    relay = site.relay(upstream=[a.url])
    body = (DATA / name).read_bytes()
    kind = "application/json" if name.endswith(".json") else "application/x-protobuf"
    trace = {"User-Agent": "OTel OTLP Exporter Go/1.47.0",
             "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
             "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}
    assert http.post(relay.port, path, body, kind, headers={**extra, **trace}).status == 200
    (request,) = a.wait_for(1)
    assert request.method == "POST" and request.target == path and request.body == body
    derived = hashlib.sha256(b"\0".join([path.encode(), extra.get("Content-Encoding", "").encode(),
                                         body])).hexdigest()
    expected = {"Content-Type": kind, "Idempotency-Key": f"relay-{derived}",
                "Content-Length": str(len(body)), **extra, **trace}
    got = dict(request.headers)
    assert {name: got.get(name) for name in expected} == expected
    assert set(got) - set(expected) == {"Host", "Accept"}


@pytest.mark.parametrize("target", [
    "/a%2Fb/../c//./d?x=%00&y=[1]{2}|^`", "/?", "/x?http://other/", "/%zz%", "/~'\"<>\\",
    "//two/slashes"])
def test_a_target_arrives_byte_for_byte_behind_the_prefix(site, a, target):
    relay = site.relay(upstream=[a.url + "/some/prefix/"])
    reply = http.post(relay.port, target, b"x")
    assert reply.status == 202
    (request,) = a.wait_for(1)
    assert request.target == "/some/prefix" + target
    assert any(probe.target == "/some/prefix/readyz" for probe in a.probes)


def test_a_body_of_any_size_and_type_arrives(site, a):
    relay = site.relay(upstream=[a.url])
    bodies = {"empty": b"", "zero": b"\0", "large": bytes(range(256)) * 20000}
    for key, body in bodies.items():
        with http.Connection(relay.port) as connection:  # no Content-Type at all
            connection.request("POST", "/any", body, {"Idempotency-Key": key})
    for request in a.wait_for(3):
        assert request.body == bodies[request.key]
        assert request.header("Content-Type") is None and request.header("Expect") is None


def test_large_bodies_take_no_second_of_waiting(site, a):
    """libcurl would wait a second for a 100 Continue that may never come."""
    relay = site.relay(upstream=[a.url])
    started = time.monotonic()
    send(relay, b"x" * 3_000_000)
    (request,) = a.wait_for(1)
    assert request.at - started < 0.9


def test_one_bad_request_does_not_hold_up_the_others(site, a):
    relay = site.relay(upstream=[a.url], workers=2)
    a.when(key_is("bad"), Reply(409))
    send(relay, Idempotency_Key="bad")
    for number in range(50):
        send(relay, Idempotency_Key=f"k{number}")
    wait_until(lambda: len(a.by_key()) == 51, 10, "all others")
    a.forget_script()
    wait_settled(relay, 51)


def test_probes_are_answered_where_the_option_says(site, a):
    a.when(path_is(PATH), Reply(200))
    relay = site.relay(upstream=[a.url + "/p probe=/health/up"])
    wait_until(lambda: a.probes, 10, "a probe")
    assert a.probes[0].target == "/p/health/up"
    wait_until(lambda: (relay.readyz() or (0, ""))[1].startswith("ok"), 10, "ready")


def spoiled(dice):
    """An answer with something wrong somewhere; seldom a good one."""
    body = dice.choice([b"{}", b"", b'{"partialSuccess":{"rejectedSpans":"', b"\x0a\xff\xff\x08"])
    headers = [("Retry-After", dice.choice(["1", "-1", "9" * 40, "", "soon", "\x80", "1,2"])),
               ("Date", dice.choice(["Thu, 01 Jan 1970 00:00:00 GMT", "x" * 5000])),
               ("Content-Type", dice.choice(["application/x-protobuf", "a/b" * 500, ""])),
               ("mcpd-wait", dice.choice(["in-fligh", "\t", "no"]))]
    status = dice.choice([100, 101, 199, 204, 304, 302, 401, 429, 500, 503, 599, 600, 999])
    data = bytearray(Reply(status, dice.sample(headers, dice.randrange(5)), body).bytes)
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(data))
        dice.choice([lambda: data.insert(at, dice.randrange(256)), lambda: data.pop(at),
                     lambda: data.__setitem__(at, dice.randrange(256)),
                     lambda: data.__delitem__(slice(at, None))])()
        if not data:
            break
    return Raw(bytes(data))


@pytest.mark.parametrize("seed", range(3))
def test_spoiled_answers_harm_nobody(site, a, b, seed):
    """Requests are offered to 60 upstreams that spoil one answer each, then to a good one."""
    dice = random.Random(seed)
    doors = [f"{a.url}/{number} timeout=1s probe=off" for number in range(60)]
    for number in range(60):
        a.when(lambda request, n=number: request.target.startswith(f"/{n}/"), spoiled(dice),
               Reply(503))
    relay = site.relay(upstream=[*doors, b.url], workers=1)
    sent = 0
    while len({request.target for request in a.requests}) < 60:
        send(relay, Idempotency_Key=f"k{sent}")
        sent += 1
        wait_settled(relay, sent)
    assert relay.is_alive()
    send(relay, Idempotency_Key="last")
    wait_until(lambda: "last" in b.by_key(), 10, "a request goes all the way")
