# SPDX-License-Identifier: MIT
"""The harness itself: a test tool that counts wrong would make every promise look kept."""
import http.server
import sqlite3
import threading

import pytest

from lib.sender import Load
from lib.store import Comparison, Store
from lib.telemetry import mixed, otlp_request, varint


class Flaky(http.server.BaseHTTPRequestHandler):
    """Answers 503 to the first try of each body, then 200."""
    protocol_version = "HTTP/1.1"
    seen = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if body in self.seen else 503)
        self.seen.add(body)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_load_counts_answers_and_repeats():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        refused = Load(server.server_address[1], mixed(20), connections=4).run()
        assert refused.statuses() == {503: 20} and not refused.accepted
        taken = Load(server.server_address[1], mixed(20), connections=4, retry=3).run()
        assert taken.statuses() == {200: 20}
        assert all(sent.attempts == 2 for sent in taken.sent)
    finally:
        server.shutdown()
        server.server_close()


class Accepted:
    is_accepted = True

    def __init__(self, request):
        self.request = request


@pytest.fixture
def filled(tmp_path):
    """A store that holds the spans of three requests, and what was sent."""
    path = tmp_path / "store.db"
    sent = [Accepted(otlp_request(n)) for n in range(3)]
    db = sqlite3.connect(path)
    db.execute("create table spans(trace_id blob, span_id blob, in_tok int, out_tok int)")
    db.execute("create table traces(trace_id blob, spans int, in_tok int, out_tok int)")
    for one in sent:
        spans = one.request.spans
        for s in spans:
            db.execute("insert into spans values (?,?,?,?)", (
                bytes.fromhex(s.trace_id), bytes.fromhex(s.span_id), s.in_tok, s.out_tok))
        db.execute("insert into traces values (?,?,?,?)", (
            bytes.fromhex(spans[0].trace_id), len(spans), sum(s.in_tok for s in spans),
            sum(s.out_tok for s in spans)))
    db.commit()
    yield Store(path), sent, db
    db.close()


def test_comparison_finds_what_is_lost_twice_or_foreign(filled):
    store, sent, db = filled
    Comparison(sent, store).check()
    assert len(Comparison(sent + [Accepted(otlp_request(9))], store).lost) == 3
    assert len(Comparison(sent[1:], store).foreign) == 3
    assert len(Comparison(sent, store, store).in_both) == 9
    db.execute("update traces set in_tok = in_tok * 2 where rowid = 1")
    db.commit()
    assert len(Comparison(sent, store).twice) == 1
    db.execute("insert into spans select * from spans where rowid = 1")
    db.commit()
    with pytest.raises(AssertionError, match="twice"):
        store.spans()


def test_varint():
    assert varint(1) == b"\x01" and varint(300) == b"\xac\x02" and len(varint(-1)) == 10
