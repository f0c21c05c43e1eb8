# SPDX-License-Identifier: MIT
"""Where one request ends and the next begins is never a matter of opinion: every ambiguous request
is refused, its connection closed, nothing of it stored and nothing behind it run."""
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib import http
from lib.process import Site

HOST = b"Host: localhost\r\n"
BEHIND = b"POST /behind HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: 0\r\n\r\n"


def post(headers, body=b"", line=b"POST /v1/ingest HTTP/1.1\r\n", host=HOST):
    return line + host + headers + b"\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH_5 = b"Content-Length: 5\r\n"

# name, bytes, status (None: closed without an answer)
REFUSED = [
    ("te_and_cl", post(CHUNKED + LENGTH_5, b"0\r\n\r\n"), 400),
    ("cl_and_te", post(LENGTH_5 + CHUNKED, b"0\r\n\r\n"), 400),
    ("two_cl_differ", post(LENGTH_5 + b"Content-Length: 6\r\n", b"hello"), 400),
    ("two_cl_equal", post(LENGTH_5 + LENGTH_5, b"hello"), 400),
    ("cl_signed_tail", post(b"Content-Length: +5abc\r\n", b"hello"), 400),
    ("cl_signed", post(b"Content-Length: +5\r\n", b"hello"), 400),
    ("cl_list", post(b"Content-Length: 5, 5\r\n", b"hello"), 400),
    ("cl_hex", post(b"Content-Length: 0x5\r\n", b"hello"), 400),
    ("cl_blank_inside", post(b"Content-Length: 5 5\r\n", b"hello"), 400),
    ("cl_empty", post(b"Content-Length:\r\n", b"hello"), 400),
    ("cl_text", post(b"Content-Length: five\r\n", b"hello"), 400),
    ("cl_negative", post(b"Content-Length: -5\r\n", b"hello"), 400),
    ("cl_overflow", post(b"Content-Length: 18446744073709551621\r\n", b"hello"), 400),
    ("te_identity_then_chunked",
     post(b"Transfer-Encoding: identity\r\n" + CHUNKED, b"0\r\n\r\n"), 400),
    ("te_identity", post(b"Transfer-Encoding: identity\r\n"), 400),
    ("te_list", post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), 400),
    ("te_xchunked", post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), 400),
    ("te_space_colon", post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400),
    ("obs_fold", post(b"A: b\r\n c\r\n" + LENGTH_5, b"hello"), 400),
    ("obs_fold_first", b"POST /v1/ingest HTTP/1.1\r\n A: b\r\n" + HOST + LENGTH_5 + b"\r\nhello",
     400),
    ("headers_65", post(b"".join(b"A%d: b\r\n" % i for i in range(63)) + LENGTH_5, b"hello"), 431),
    ("lf_crlf_in_head", post(b"A: b\n\r\n" + LENGTH_5, b"hello"), 400),
    ("bare_lf_line", post(b"A: b\n" + LENGTH_5, b"hello"), 400),
    ("bare_lf_all", b"POST /v1/ingest HTTP/1.1\nHost: localhost\nContent-Length: 5\n\nhello", 400),
    ("bare_cr_in_value", post(b"A: b\rc\r\n" + LENGTH_5, b"hello"), 400),
    ("no_colon", post(b"nonsense\r\n" + LENGTH_5, b"hello"), 400),
    ("colon_first", post(b": x\r\n" + LENGTH_5, b"hello"), 400),
    ("name_8bit", post(b"\xc3\xa9: x\r\n" + LENGTH_5, b"hello"), 400),
    ("name_no_token", post(b"a(b): x\r\n" + LENGTH_5, b"hello"), 400),
    ("nul_in_value", post(b"A: b\0c\r\n" + LENGTH_5, b"hello"), 400),
    ("tab_in_value", post(b"A: b\tc\r\n" + LENGTH_5, b"hello"), 400),
    ("two_empty_lines_first", b"\r\n\r\n" + post(LENGTH_5, b"hello"), 400),
    ("one_empty_line_first", b"\r\n" + post(LENGTH_5, b"hello"), 400),
    ("lf_first", b"\n" + post(LENGTH_5, b"hello"), 400),
    ("blank_first", b" " + post(LENGTH_5, b"hello"), 400),
    ("no_length", post(b""), 411),
    ("no_host", post(LENGTH_5, b"hello", host=b""), 400),
    ("two_hosts", post(HOST + LENGTH_5, b"hello"), 400),
    ("http10_chunked", post(CHUNKED, b"0\r\n\r\n", line=b"POST /v1/ingest HTTP/1.0\r\n"), 400),
    ("http12", post(LENGTH_5, b"hello", line=b"POST /v1/ingest HTTP/1.2\r\n"), 505),
    ("http09", b"POST /v1/ingest\r\n\r\n", 400),
    ("two_blanks_in_line", post(LENGTH_5, b"hello", line=b"POST  /v1/ingest HTTP/1.1\r\n"), 400),
    ("unknown_method", b"FROB /v1/ingest HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("trace", b"TRACE /v1/ingest HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("http2_preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("head_too_large", post(b"A: " + b"b" * 17000 + b"\r\n" + LENGTH_5, b"hello"), 400),
    ("get_with_body", b"GET /healthz HTTP/1.1\r\n" + HOST + LENGTH_5 + b"\r\nhello", 400),
    ("get_chunked", b"GET /healthz HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n", 400),
    ("delete_with_body", b"DELETE /x HTTP/1.1\r\n" + HOST + LENGTH_5 + b"\r\nhello", 400),
    ("other_host_uri",
     post(LENGTH_5, b"hello", line=b"POST http://other.invalid/v1/ingest HTTP/1.1\r\n"), None),
    ("options_star", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", None),
    ("two_idempotency_keys",
     post(b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n" + LENGTH_5, b"hello"), 400),
    ("two_content_types", post(b"Content-Type: a/b\r\nContent-Type: a/c\r\n" + LENGTH_5, b"hello"),
     400),
    ("two_encodings",
     post(b"Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n" + LENGTH_5, b"hello"), 400),
    ("expect_other", post(b"Expect: 200-ok\r\n" + LENGTH_5, b"hello"), 417),
    ("chunk_extension", post(CHUNKED, b"5;a=b\r\nhello\r\n0\r\n\r\n"), 503),
    ("chunk_size_text", post(CHUNKED, b"xyz\r\nhello\r\n0\r\n\r\n"), 503),
    ("chunk_size_signed", post(CHUNKED, b"+5\r\nhello\r\n0\r\n\r\n"), 503),
    ("chunk_size_negative", post(CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"), 503),
    ("chunk_no_crlf", post(CHUNKED, b"5\r\nhelloXX0\r\n\r\n"), 503),
    ("chunk_lf_only", post(CHUNKED, b"5\nhello\n0\n\n"), 503),
    ("chunk_size_wraps", post(CHUNKED, b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n"), 503),
]

ACCEPTED = [
    ("plain", post(LENGTH_5 + b"Connection: close\r\n", b"hello")),
    ("chunked", post(CHUNKED, b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")),
    ("chunked_any_case", post(b"Transfer-Encoding: CHUNKED\r\n", b"5\r\nhello\r\n0\r\n\r\n")),
    ("trailer", post(CHUNKED, b"5\r\nhello\r\n0\r\nA: b\r\n\r\n")),
    ("cr_in_chunk_size", post(CHUNKED, b"5\ra\r\nhello\r\n0\r\n\r\n")),
    ("headers_64",
     post(b"".join(b"A%d: b\r\n" % i for i in range(61)) + LENGTH_5 + b"Connection: close\r\n",
          b"hello")),
    ("empty_value", post(b"A:\r\n" + LENGTH_5 + b"Connection: close\r\n", b"hello")),
    ("http10", post(LENGTH_5, b"hello", line=b"POST /v1/ingest HTTP/1.0\r\n", host=b"")),
    ("leading_zeros", post(b"Content-Length: 0005\r\nConnection: close\r\n", b"hello")),
]


@pytest.fixture(scope="module", name="relay")
def relay_(tmp_path_factory):
    with Site(tmp_path_factory.mktemp("framing")) as site:
        yield site.relay(upstream=["http://127.0.0.1:9"], threads=64)


def accepted(relay):
    return relay.metric("mcpd_relay_accepted_total")


def is_refused(answer, status):
    if status is None:
        return answer == b""
    return http.statuses(answer) == [status] and b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize("name,data,status", REFUSED, ids=[row[0] for row in REFUSED])
def test_refused_on_a_fresh_connection(relay, name, data, status):
    before = accepted(relay)
    answer = http.raw_exchange(relay.port, data + BEHIND)
    assert is_refused(answer, status), f"{name}: {answer[:300]}"
    assert accepted(relay) == before


@pytest.mark.parametrize("name,data,status", REFUSED, ids=[row[0] for row in REFUSED])
def test_refused_on_a_kept_connection(relay, name, data, status):
    before = accepted(relay)
    with http.Connection(relay.port) as connection:
        assert connection.request("POST", "/v1/ingest", b"{}").status == 202
        connection.send(data + BEHIND)
        answer = http.read_all(connection)
    assert is_refused(answer, status), f"{name}: {answer[:300]}"
    assert accepted(relay) == before + 1


@pytest.mark.parametrize("name,data", ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_legal_request_is_stored_once(relay, name, data):
    before = accepted(relay)
    answer = http.raw_exchange(relay.port, data)
    assert http.statuses(answer) == [202], f"{name}: {answer[:300]}"
    assert accepted(relay) == before + 1


def test_chunked_body_ends_its_connection(relay):
    before = accepted(relay)
    answer = http.raw_exchange(relay.port, post(CHUNKED, b"0\r\n\r\n") + BEHIND)
    assert http.statuses(answer) == [202]
    assert accepted(relay) == before + 1


def test_pipelined_requests_are_each_stored_once(relay):
    before = accepted(relay)
    answer = http.raw_exchange(relay.port, post(LENGTH_5, b"hello") * 3 + BEHIND)
    assert http.statuses(answer) == [202] * 4
    assert accepted(relay) == before + 4


LENGTHS = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 127, 255, 256, 511, 1000, 2048, 4095,
           4096, 8191, 8192, 12000, 16000, 16200, 16383, 16384]


@pytest.mark.parametrize("kind", [b"\r\n", b" ", b"\n", b"\v\f", b"\r\n\r\n \r\n"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["fresh", "kept"])
def test_leading_bytes_of_any_length(relay, kind, is_kept):
    before = accepted(relay)
    for length in LENGTHS:
        lead = (kind * length)[:length]
        with http.Connection(relay.port) as connection:
            if is_kept:
                assert connection.request("POST", "/v1/ingest", b"{}").status == 202
            try:
                connection.send(lead + post(LENGTH_5, b"hello") + BEHIND)
            except OSError:
                pass
            answer = http.read_all(connection)
        assert http.statuses(answer) in ([400], []), f"{length} x {kind}: {answer[:200]}"
    assert accepted(relay) == before + (len(LENGTHS) if is_kept else 0)


def test_first_request_of_every_worker_thread(tmp_path):
    """What a worker's buffer holds and where it lies must not matter at its very first request."""
    threads = 24
    with Site(tmp_path) as site:
        relay = site.relay(upstream=["http://127.0.0.1:9"], threads=threads, start=False).spawn()
        connections = connect_all(relay, threads - 2)
        for connection in connections:
            connection.send(b"\r\n\r\n" + post(LENGTH_5, b"hello") + BEHIND)
        answers = [http.read_all(connection) for connection in connections]
        assert [http.statuses(answer) for answer in answers] == [[400]] * len(connections)
        assert accepted(relay) == 0


def connect_all(relay, count):
    """Connections that are all open at once, so that each has a worker of its own."""
    def connect(_):
        while True:
            try:
                return http.Connection(relay.port)
            except ConnectionRefusedError:
                assert relay.is_alive(), relay.log()
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(connect, range(count)))


def test_nobody_elses_key_is_reused(tmp_path):
    """A worker's buffer still holds the last request. Blank lines must not make it run again."""
    with Site(tmp_path) as site:
        relay = site.relay(upstream=["http://127.0.0.1:9"], threads=4, ingest_key="k" * 20)
        key = {"Authorization": "Bearer " + "k" * 20}
        for _ in range(16):
            assert http.post(relay.port, "/v1/ingest", b"{}", headers=key).status == 202
        before = accepted(relay)
        for length in (4, 8, 16, 64, 128, 180):
            for _ in range(8):
                answer = http.raw_exchange(relay.port, b"\r\n\r\n" + b" " * length,
                                           half_close=True)
                assert http.statuses(answer) in ([400], []), answer
        assert accepted(relay) == before


def test_refusals_are_counted_by_reason(relay):
    def count(reason):
        return relay.metrics().get(f'mcpd_http_refused_total{{reason="{reason}"}}', 0)
    for reason, data in [("leading_bytes", b"\r\n" + BEHIND), ("http2", b"PRI * HTTP/2.0\r\n\r\n"),
                         ("no_length", post(b""))]:
        before = count(reason)
        http.raw_exchange(relay.port, data)
        assert count(reason) == before + 1
    assert "speaks OTLP/HTTP" in relay.log()


def test_silent_connection_is_closed_without_an_answer(tmp_path):
    with Site(tmp_path) as site:
        relay = site.relay(upstream=["http://127.0.0.1:9"], threads=8, request_timeout_seconds=1)
        with http.Connection(relay.port) as connection:
            assert connection.is_closed_by_peer(10)
        with http.Connection(relay.port) as connection:
            connection.send(b"POST /v1/ingest HTTP/1.1\r\nHost:")
            assert http.statuses(http.read_all(connection)) == [400]


def mutate(data, dice):
    """Some bytes of a request changed, dropped, doubled or replaced by ones that parsers love."""
    data = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(data))
        kind = dice.randrange(4)
        if kind == 0:
            data[at] = dice.randrange(256)
        elif kind == 1:
            del data[at:at + dice.randrange(1, 8)]
        elif kind == 2:
            data[at:at] = dice.choice([b"\r\n", b"\n", b"\r", b" ", b"\0", b"\t", b":", b"%", b"\xff",
                                       b"Content-Length: 5\r\n", CHUNKED, b"\r\n\r\n"])
        else:
            data[at:at] = data[max(0, at - 40):at]
        if not data:
            data = bytearray(b"\r")
    return bytes(data)


def test_mutated_requests_are_answered_as_often_as_stored(relay):
    """Whatever the bytes: as many 2xx as requests stored, and the relay stands."""
    dice = random.Random(20260101)
    seeds = [row[1] for row in REFUSED + ACCEPTED]
    before, told = accepted(relay), 0
    for _ in range(600):
        answer = http.raw_exchange(relay.port, mutate(dice.choice(seeds), dice) + BEHIND,
                                   half_close=True)
        told += sum(200 <= status < 300 for status in http.statuses(answer))
        told -= answer.count(b"\r\n\r\nok")  # a GET that turned into a good probe
    assert accepted(relay) == before + told
    assert relay.is_alive()
