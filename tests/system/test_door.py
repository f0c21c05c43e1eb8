# SPDX-License-Identifier: MIT
"""The relay's door towards senders: keys, limits, slow and broken senders, answers, the end."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib import http
from lib.ports import free_port
from lib.process import Site
from lib.sender import Load
from lib.telemetry import mixed
from lib.wait import wait_until

NOWHERE = "http://127.0.0.1:9"  # an upstream that is never there
KEY = "0123456789abcdef-key"
COUNTS = b'{"accepted":0,"duplicate":0,"rejected":0}'
PROTOBUF = "application/x-protobuf"


def accepted(relay):
    return relay.metric("mcpd_relay_accepted_total")


def refused(relay, reason):
    return relay.metrics().get(f'mcpd_http_refused_total{{reason="{reason}"}}', 0)


def is_retry(reply):
    return reply.status == 503 and reply.headers.get("retry-after") == "1"


# --- answers ---

def test_answers_of_the_documentation(site):
    """The two curl lines of the product's page print exactly what it shows."""
    relay = site.relay(upstream=[NOWHERE])
    (site.folder / "batch.json").write_text('{"events":[]}\n')
    curl = (f"curl -s -D - -o /dev/null 127.0.0.1:{relay.port}/v1/ingest "
            '-H "content-type: application/json" -d @batch.json | grep -e ^HTTP -e mcpd-relay')
    shown = subprocess.run(curl, shell=True, cwd=site.folder, capture_output=True, check=True)
    assert shown.stdout == b"HTTP/1.1 202 Accepted\r\nmcpd-relay: spooled\r\n"
    curl = (f"curl -s 127.0.0.1:{relay.port}/v1/ingest "
            '-H "content-type: application/json" -d @batch.json')
    shown = subprocess.run(curl, shell=True, cwd=site.folder, capture_output=True, check=True)
    assert shown.stdout == COUNTS


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics", "/v1/traces?a=b"])
@pytest.mark.parametrize("content_type,body,reply_type", [
    ("application/json", b'{"partialSuccess":{}}', "application/json"),
    ("application/json; charset=utf-8", b'{"partialSuccess":{}}', "application/json"),
    (PROTOBUF, b"\x0a\x00", PROTOBUF),
    ("text/plain", b'{"partialSuccess":{}}', "application/json"),
])
def test_otlp_paths_answer_in_the_senders_encoding(relay, path, content_type, body, reply_type):
    reply = http.post(relay.port, path, b"anything", content_type)
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers["content-type"] == reply_type
    assert "mcpd-relay" not in reply.headers


@pytest.mark.parametrize("path", [
    "/", "/v1/ingest", "/v1/traces/", "/V1/traces", "/v1/traces%00", "/v1%2ftraces", "//v1/traces",
    "/v1/../healthz", "/a/./b", "/healthz/", "/healthz%00", "/%68ealthz", "/healthzz", "/a?b=c?d",
    "/?", "/a%0d%0aX: y".replace(" ", "%20"), "/" + "x" * 8000])
def test_any_other_path_is_spooled(relay, path):
    before = accepted(relay)
    reply = http.post(relay.port, path, b"{}")
    assert (reply.status, reply.body) == (202, COUNTS)
    assert reply.headers["mcpd-relay"] == "spooled"
    assert reply.headers["content-type"] == "application/json"
    assert accepted(relay) == before + 1


@pytest.fixture(scope="module", name="relay")
def relay_(tmp_path_factory):
    with Site(tmp_path_factory.mktemp("door")) as site:
        yield site.relay(upstream=[NOWHERE], threads=64, max_body_bytes="64KiB")


@pytest.mark.parametrize("line", [
    b"POST /a\x01b HTTP/1.1", b"POST /a\x7fb HTTP/1.1", b"POST /\xc3\xa9 HTTP/1.1",
    b"POST /a\tb HTTP/1.1", b"POST * HTTP/1.1", b"POST a HTTP/1.1"])
def test_control_bytes_in_the_target_are_refused(relay, line):
    before = accepted(relay)
    answer = http.raw_exchange(relay.port, line + b"\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert http.statuses(answer) in ([400], []), answer
    assert accepted(relay) == before


@pytest.mark.parametrize("method,path,status,allow", [
    ("GET", "/v1/ingest", 405, "POST"), ("GET", "/v1/traces", 405, "POST"),
    ("PUT", "/v1/ingest", 405, "POST"), ("DELETE", "/v1/ingest", 405, "POST"),
    ("OPTIONS", "/v1/ingest", 405, "POST"), ("PATCH", "/v1/ingest", 405, "POST"),
    ("HEAD", "/v1/ingest", 405, "POST"),
    ("POST", "/healthz", 405, "GET, HEAD"), ("POST", "/readyz", 405, "GET, HEAD"),
    ("POST", "/metrics", 405, "GET, HEAD"), ("POST", "/healthz?a", 405, "GET, HEAD"),
    ("OPTIONS", "/healthz", 405, "GET, HEAD"),
    ("GET", "/healthz", 200, None), ("HEAD", "/healthz", 200, None), ("HEAD", "/metrics", 200, None),
])
def test_methods(relay, method, path, status, allow):
    before = accepted(relay)
    headers = {"Origin": "http://a", "Access-Control-Request-Method": "POST"}
    if method == "PATCH":
        headers["Content-Length"] = "0"
    with http.Connection(relay.port) as connection:
        reply = connection.request(method, path, b"", headers)
    assert reply.status == status
    assert reply.headers.get("allow") == allow
    assert "access-control-allow-origin" not in reply.headers
    assert accepted(relay) == before


def test_head_sends_no_body(relay):
    answer = http.raw_exchange(
        relay.port, b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\n")
    assert b"\r\nContent-Length: 2\r\n" in answer


def test_probes_answer_in_plain_text(relay):
    for path, text in (("/healthz", b"ok"), ("/readyz", b"degraded")):
        reply = http.get(relay.port, path)
        assert reply.headers["content-type"] == "text/plain"
        assert reply.body.startswith(text)


# --- keys ---

@pytest.mark.parametrize("headers,status", [
    ({}, 401), ({"x-mcpd-key": ""}, 401), ({"x-mcpd-key": "wrong"}, 401),
    ({"x-mcpd-key": KEY[:-1]}, 401), ({"x-mcpd-key": KEY + "y"}, 401),
    ({"x-mcpd-key": KEY + KEY}, 401), ({"Authorization": KEY}, 401),
    ({"Authorization": f"Basic {KEY}"}, 401), ({"Authorization": "Bearer"}, 401),
    ({"Authorization": "Bearer wrong", "x-mcpd-key": KEY}, 401),
    ({"x-mcpd-key": KEY}, 202), ({"Authorization": f"Bearer {KEY}"}, 202),
    ({"authorization": f"bearer  {KEY} "}, 202), ({"x-mcpd-key": "another-key-of-some-length"}, 202),
    ({"Authorization": "Basic eA==", "x-mcpd-key": KEY}, 202),
])
def test_keys(keyed, headers, status):
    before = accepted(keyed)
    reply = http.post(keyed.port, "/v1/ingest", b"{}", headers=headers)
    assert reply.status == status
    assert accepted(keyed) == before + (status == 202)
    if status == 401:
        assert reply.headers["www-authenticate"] == "Bearer"
        assert json.loads(reply.body)["error"]["code"] == "unauthorized"


@pytest.fixture(scope="module", name="keyed")
def keyed_(tmp_path_factory):
    with Site(tmp_path_factory.mktemp("keyed")) as site:
        yield site.relay(upstream=[NOWHERE], ingest_key=[KEY, "another-key-of-some-length"])


def test_probes_need_no_key(keyed):
    for path in ("/healthz", "/readyz", "/metrics"):
        assert http.get(keyed.port, path).status == 200


def test_key_is_checked_before_the_body_is_read(keyed):
    """A refused sender is told at once, while most of its body is still to come."""
    with http.Connection(keyed.port) as connection:
        connection.send(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"
                        b"Content-Type: application/x-protobuf\r\nContent-Length: 1000000\r\n\r\n")
        began = time.monotonic()
        reply = connection.reply()
        assert time.monotonic() - began < 5
    assert reply.status == 401
    assert reply.headers["content-type"] == PROTOBUF
    assert reply.body.startswith(b"\x08\x10\x12")  # google.rpc.Status, UNAUTHENTICATED


# --- limits ---

def chunks(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


CHUNKED = b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_body_of_exactly_the_limit_is_taken(relay):
    body = b"x" * 65536
    assert http.post(relay.port, "/v1/ingest", body).status == 202
    assert http.statuses(http.raw_exchange(relay.port, CHUNKED + chunks(body))) == [202]


def test_body_over_the_limit_is_refused(relay):
    before = accepted(relay)
    body = b"x" * 65537
    reply = http.post(relay.port, "/v1/traces", body, PROTOBUF)
    assert (reply.status, reply.headers["content-type"]) == (413, PROTOBUF)
    assert http.statuses(http.raw_exchange(relay.port, CHUNKED + chunks(body))) == [413]
    assert accepted(relay) == before


@pytest.mark.parametrize("head", [
    b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n",
    CHUNKED + b"3b9aca00\r\n"], ids=["length", "chunked"])
def test_large_body_is_refused_without_reading_it_all(relay, head):
    """1 GB announced; what the socket's buffers hold is far less than that."""
    with http.Connection(relay.port) as connection:
        connection.send(head)
        sent, piece = 0, b"x" * 65536
        try:
            while sent < 500_000_000:
                connection.send(piece)
                sent += len(piece)
        except OSError:
            pass
    assert sent < 50_000_000
    wait_until(lambda: refused(relay, "too_large") > 0, 5, "counted")


def test_status_of_an_early_refusal_is_readable(relay):
    """The answer must not be lost in the reset of a connection that still sends."""
    seen = 0
    for _ in range(100):
        with http.Connection(relay.port) as connection:
            connection.send(b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
            try:
                connection.send(b"x" * 200000)
            except OSError:
                pass
            seen += connection.reply().status == 413
    assert seen == 100


def test_bytes_in_flight_are_bounded(site):
    relay = site.relay(upstream=[NOWHERE], max_inflight_bytes=65536)
    head = b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n"
    with http.Connection(relay.port) as first:
        # Its worker is there when it asks for the body, and counts with the first byte of it.
        first.send(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert first.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        first.send(b"x")
        time.sleep(0.5)  # the other one must not be counted before it
        wait_until(lambda: is_retry(http.post(relay.port, "/v1/ingest", b"x" * 40000)), 10,
                   "the second body is one too many")
        assert refused(relay, "inflight") > 0
        first.send(b"x" * 39999)
        assert first.reply().status == 202
    assert http.post(relay.port, "/v1/ingest", b"x" * 40000).status == 202


def test_announced_bytes_alone_hold_no_memory(site):
    """Many senders that announce much and send nothing must not lock others out."""
    relay = site.relay(upstream=[NOWHERE], threads=64, max_inflight_bytes="4MiB",
                       max_body_bytes="16MiB")
    idle = [http.Connection(relay.port) for _ in range(32)]
    for connection in idle:
        connection.send(b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\nx")
    for _ in range(20):
        assert http.post(relay.port, "/v1/ingest", b"x" * 1000).status == 202
    for connection in idle:
        connection.close()


# --- broken and slow senders ---

HALVES = [
    b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf",
    CHUNKED + b"3e8\r\nhalf", CHUNKED + b"4\r\nhalf\r\n", CHUNKED + b"4\r\nhalf\r\n0",
    CHUNKED,
]


@pytest.mark.parametrize("data", HALVES)
@pytest.mark.parametrize("path", [b"/v1/ingest", b"/v1/traces"])
def test_half_a_body_is_never_stored(relay, data, path):
    before = accepted(relay)
    answer = http.raw_exchange(relay.port, data.replace(b"/v1/ingest", path), half_close=True)
    assert http.statuses(answer) == [503]
    assert b"\r\nRetry-After: 1\r\n" in answer
    assert accepted(relay) == before


def test_half_a_body_then_gone_is_never_stored(relay):
    before, short = accepted(relay), refused(relay, "body_short")
    for data in HALVES:
        with http.Connection(relay.port) as connection:
            connection.send(data)
    wait_until(lambda: refused(relay, "body_short") >= short + len(HALVES), 10, "all noticed")
    assert accepted(relay) == before


def trickle(port, head, every_s=0.2, seconds=15):
    """Sends a byte now and then; (seconds until the answer, the answer or None)."""
    with http.Connection(port) as connection:
        connection.send(head)
        began = time.monotonic()
        connection.sock.settimeout(every_s)
        answer = b""
        while time.monotonic() - began < seconds:
            try:
                answer += connection.sock.recv(65536)
                return time.monotonic() - began, answer
            except TimeoutError:
                connection.send(b"a")
        return time.monotonic() - began, answer


@pytest.mark.parametrize("head", [
    b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n",
    CHUNKED + b"1000\r\n"], ids=["length", "chunked"])
def test_trickling_body_is_cut_at_the_deadline(site, head):
    relay = site.relay(upstream=[NOWHERE], request_timeout_seconds=2)
    took, answer = trickle(relay.port, head)
    assert http.statuses(answer) == [503] and b"\r\nRetry-After: 1\r\n" in answer
    assert 1.8 <= took < 8
    assert accepted(relay) == 0
    assert refused(relay, "body_late") == 1


def test_body_below_the_minimum_rate_is_cut_long_before_the_deadline(relay):
    """1 KiB/s after five seconds; the request timeout is 30 s here."""
    took, answer = trickle(relay.port,
                           b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n")
    assert http.statuses(answer) == [503]
    assert 4.5 <= took < 12


def test_trickling_head_is_cut(site):
    relay = site.relay(upstream=[NOWHERE], request_timeout_seconds=1)
    took, answer = trickle(relay.port, b"POST /v1/ingest HTTP/1.1\r\nHost: ")
    assert http.statuses(answer) == [400]
    assert took < 6


def test_tricklers_do_not_keep_others_out(site):
    relay = site.relay(upstream=[NOWHERE], request_timeout_seconds=3, threads=120)
    ends = threading.Event()

    def trickler():
        while not ends.is_set():
            try:
                trickle(relay.port, b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
            except OSError:
                pass
    threads = [threading.Thread(target=trickler) for _ in range(80)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: refused(relay, "body_late") >= 80, 30, "the first tricklers are cut")
        for _ in range(20):
            assert http.post(relay.port, "/v1/ingest", b"{}", timeout=5).status == 202
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def test_full_house_sheds_and_still_answers_probes(site):
    """20 threads: above 18 connections answers close, above 19 requests are refused."""
    relay = site.relay(upstream=[NOWHERE], threads=20, keep_alive_timeout="60s")
    # The harness's own probe connection may still be closing.
    held = []

    def hold():
        connection = http.Connection(relay.port)
        held.append(connection)
        return connection.request("POST", "/v1/ingest", b"{}")
    replies = [hold() for _ in range(18)]
    assert all(reply.status == 202 for reply in replies)
    assert hold().headers.get("connection") == "close"
    for connection in held[18:]:
        connection.close()
    silent = [http.Connection(relay.port) for _ in range(1)]
    def is_shed():
        with http.Connection(relay.port) as last:
            return is_retry(last.request("POST", "/v1/ingest", b"{}"))
    wait_until(is_shed, 10, "the last thread refuses")
    assert http.get(relay.port, "/healthz").status == 200
    assert http.get(relay.port, "/metrics").status == 200
    for connection in held + silent:
        connection.close()
    wait_until(lambda: http.post(relay.port, "/v1/ingest", b"{}").status == 202, 10, "room again")


def test_admin_door_answers_while_the_data_door_is_full(site):
    admin = free_port()
    relay = site.relay(upstream=[NOWHERE], threads=8, keep_alive_timeout="60s",
                       admin_listen=f"127.0.0.1:{admin}")
    held = [http.Connection(relay.port) for _ in range(30)]
    for path in ("/healthz", "/readyz", "/metrics"):
        assert http.get(admin, path, timeout=5).status == 200
    assert http.post(admin, "/v1/ingest", b"{}").status == 404
    for connection in held:
        connection.close()


# --- Expect, keep-alive, speed ---

def test_expect_is_answered_before_the_body(relay):
    with http.Connection(relay.port) as connection:
        connection.send(b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
                        b"Content-Length: 5\r\n\r\n")
        assert connection.sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(b"hello")
        assert connection.reply().status == 202
        assert connection.request("POST", "/v1/ingest", b"{}").status == 202


@pytest.mark.parametrize("headers,status", [
    (b"Content-Length: 70000\r\nExpect: 100-continue\r\n", 413),
    (b"Content-Length: 5\r\nExpect: 100-continue, x\r\n", 417)])
def test_refused_expectation_gets_the_final_status(relay, headers, status):
    with http.Connection(relay.port) as connection:
        connection.send(b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        assert connection.reply().status == status
        assert connection.is_closed_by_peer()


def test_curl_with_two_mebibytes_is_not_held_up(site):
    relay = site.relay(upstream=[NOWHERE])
    (site.folder / "body").write_bytes(b"x" * (2 << 20))
    began = time.monotonic()
    subprocess.run(["curl", "-s", "-f", "-o", "/dev/null", "--data-binary", "@body",
                    f"http://127.0.0.1:{relay.port}/v1/ingest"], cwd=site.folder, check=True)
    assert time.monotonic() - began < 0.9  # curl waits a second for a 100 that does not come


def test_answers_leave_in_one_piece(relay):
    """In two they cost 40 ms of delayed acknowledgement each."""
    with http.Connection(relay.port) as connection:
        began = time.monotonic()
        for _ in range(300):
            connection.send(http.build("POST", "/v1/ingest", b"{}"))
            assert connection.sock.recv(65536).endswith(COUNTS)
        assert time.monotonic() - began < 8


def test_keep_alive_can_be_switched_off(site):
    relay = site.relay(upstream=[NOWHERE], keep_alive="off")
    with http.Connection(relay.port) as connection:
        reply = connection.request("POST", "/v1/ingest", b"{}")
        assert (reply.status, reply.headers["connection"]) == (202, "close")
        assert connection.is_closed_by_peer()


def test_http10_keeps_its_connection_only_when_asked(relay):
    head = b"POST /v1/ingest HTTP/1.0\r\nContent-Length: 2\r\n"
    answer = http.raw_exchange(relay.port, head + b"\r\n{}")
    assert http.statuses(answer) == [202] and b"\r\nConnection: close\r\n" in answer
    with http.Connection(relay.port) as connection:
        for _ in range(2):
            connection.send(head + b"Connection: keep-alive\r\n\r\n{}")
            assert connection.reply().headers["connection"] == "keep-alive"


# --- the sender's Idempotency-Key ---

@pytest.mark.parametrize("key", ["", '""', "a b", "a\x0bb", "\xe9", "k" * 201])
def test_unusable_idempotency_key_is_refused_and_not_echoed(relay, key):
    before = accepted(relay)
    data = (b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Idempotency-Key: " + key.encode("latin-1") + b"\r\nConnection: close\r\n"
            b"Content-Length: 2\r\n\r\n{}")
    answer = http.raw_exchange(relay.port, data)
    assert http.statuses(answer) == [400]
    if len(key) > 2:
        assert key.encode("latin-1") not in answer
    assert accepted(relay) == before


# --- the end ---

def test_drain_keeps_every_accepted_request(site):
    """SIGTERM under load: what was answered 2xx is delivered after a restart, the rest was told to
    send again or cut before anything was said; /readyz says draining first; the exit is clean."""
    relay = site.relay(upstream=[NOWHERE], drain_delay="1s", drain_timeout="5s")
    load = Load(relay.port, mixed(10 ** 9), connections=16).start()
    wait_until(lambda: len(load.accepted) > 200, 20, "load is running")
    relay.signal(signal.SIGTERM)
    wait_until(lambda: relay.readyz() == (503, "draining"), 5, "readyz says draining")
    assert http.post(relay.port, "/v1/ingest", b"{}").status == 202  # still served in the delay
    assert relay.wait(30) == 0
    load.stop()
    statuses = load.statuses()
    assert set(statuses) <= {200, 202, 503, None}, statuses
    relay.start()
    kept = relay.metric("mcpd_relay_spool_entries")
    assert kept >= len(load.accepted)
    assert kept <= len(load.sent) + 1


def test_drain_waits_for_a_request_under_way(site):
    relay = site.relay(upstream=[NOWHERE], drain_timeout="10s")
    with http.Connection(relay.port) as slow:
        slow.send(b"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                  b"Expect: 100-continue\r\n\r\n")
        assert slow.reply().status == 100  # so it is under way
        relay.signal(signal.SIGTERM)
        wait_until(lambda: is_retry(http.post(relay.port, "/v1/ingest", b"{}")), 10,
                   "later requests are refused")
        slow.send(b"hello")
        reply = slow.reply()
        assert (reply.status, reply.headers["connection"]) == (202, "close")
    assert relay.wait(20) == 0


def test_idle_connections_do_not_hold_up_the_end(site):
    relay = site.relay(upstream=[NOWHERE])
    idle = [http.Connection(relay.port) for _ in range(20)]
    for connection in idle[:10]:
        assert connection.request("POST", "/v1/ingest", b"{}").status == 202
    began = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - began < 5
    for connection in idle:
        assert connection.is_closed_by_peer()
        connection.close()


def test_many_connections_at_once(site):
    """300 kept-alive senders on 512 threads, each request answered."""
    relay = site.relay(upstream=[NOWHERE])

    def work(number):
        with http.Connection(relay.port) as connection:
            return [connection.request("POST", f"/v1/ingest?{number}", b"{}").status
                    for _ in range(5)]
    with ThreadPoolExecutor(300) as pool:
        assert all(s == [202] * 5 for s in pool.map(work, range(300)))
    assert accepted(relay) == 1500


def idle_workers(process):
    """{thread: how often it waited} of the door's workers, which give way to the other threads."""
    result = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        nice = int((task / "stat").read_text().rsplit(")", 1)[1].split()[16])
        if nice > os.nice(0):
            waits = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.M)
            result[task.name] = int(waits[1])
    return result


def test_idle_workers_look_for_connections_by_themselves(site):
    """The wake-up that tells one of them of a connection can be lost in the C library."""
    relay = site.relay(upstream=[NOWHERE], threads=16)
    before = idle_workers(relay)
    assert len(before) == 16
    wait_until(lambda: all(n > before[task] for task, n in idle_workers(relay).items()), 30,
               "each has looked")
