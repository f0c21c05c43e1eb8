# SPDX-License-Identifier: MIT
"""What a daemon's store holds, compared with what was sent. Reads the tables themselves, not the
daemon's answers, so that a wrong sum cannot hide behind a wrong query."""
import sqlite3
from collections import Counter, defaultdict


class _Rows:
    """What both kinds of store answer; HEX is how SQL there makes an id's text."""

    def spans(self):
        """{(trace id, span id): (input tokens, output tokens)} in lower-case hex; every row must
        have an identity of its own."""
        rows = self.query(f"select {self.HEX('trace_id')}, {self.HEX('span_id')}, "
                          "coalesce(in_tok, 0), coalesce(out_tok, 0) from spans")
        counts = Counter((row[0], row[1]) for row in rows)
        twice = [identity for identity, count in counts.items() if count > 1]
        assert not twice, f"rows stored twice: {twice[:5]}"
        return {(row[0], row[1]): (row[2], row[3]) for row in rows}

    def traces(self):
        """{trace id: (spans, input tokens, output tokens)} as the daemon summed them up."""
        rows = self.query(f"select {self.HEX('trace_id')}, spans, coalesce(in_tok, 0), "
                          "coalesce(out_tok, 0) from traces")
        return {row[0]: tuple(row[1:]) for row in rows}

    def count_spans(self):
        return self.query("select count(*) from spans")[0][0]

    def forget_keys(self):
        """Deletes all request keys, so that only the identity of spans can find a duplicate."""
        return self.execute("delete from idem")


class Store(_Rows):
    """Reads the SQLite file at path; the daemon may be running."""

    HEX = "lower(hex({}))".format

    def __init__(self, path):
        self.path = path

    def query(self, sql, *values):
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def execute(self, sql, *values):
        """Changes the file behind the daemon's back, for tests that take a layer away."""
        connection = sqlite3.connect(self.path, timeout=10)
        try:
            with connection:
                return connection.execute(sql, values).rowcount
        finally:
            connection.close()


class PgStore(_Rows):
    """Reads the Postgres database that daemons share."""

    HEX = "encode({}, 'hex')".format

    def __init__(self, database):
        self.query, self.execute = database.query, database.execute


def all_spans(requests):
    """{(trace id, span id): (input tokens, output tokens)} of requests or of Sent."""
    result = {}
    for one in requests:
        for span in getattr(one, "request", one).spans:
            result[span.trace_id, span.span_id] = (span.in_tok, span.out_tok)
    return result


def missing(store, accepted):
    """Spans of accepted requests that the store does not have."""
    stored = store.spans()
    return [identity for identity in all_spans(accepted) if identity not in stored]


class Comparison:
    """What was sent against what one or several stores hold.

    lost: spans of accepted requests that no store has. twice: traces whose sums in a store differ
    from the spans that were sent and are stored there (a second copy would show as a higher count),
    and spans held by more than one of the stores. foreign: stored, but never sent.
    """

    def __init__(self, sent, *stores):
        must, may = all_spans(s for s in sent if s.is_accepted), all_spans(sent)
        holders = Counter()
        self.twice, self.foreign, self.stored = [], [], 0
        for store in stores:
            spans = store.spans()
            holders.update(spans.keys())
            self.stored += len(spans)
            self.foreign += [i for i, tokens in spans.items() if may.get(i) != tokens]
            self.twice += self._wrong_sums(spans, store.traces(), may)
        self.lost = [identity for identity in must if identity not in holders]
        self.in_both = [identity for identity, count in holders.items() if count > 1]

    @staticmethod
    def _wrong_sums(spans, traces, may):
        sums = defaultdict(lambda: [0, 0, 0])
        for identity in spans:
            tokens = may.get(identity, (0, 0))
            total = sums[identity[0]]
            total[0] += 1
            total[1] += tokens[0]
            total[2] += tokens[1]
        wrong = [(t, tuple(s), traces.get(t)) for t, s in sums.items()
                 if traces.get(t) != tuple(s)]
        return wrong + [(t, None, s) for t, s in traces.items() if t not in sums]

    def check(self):
        """Everything accepted is stored, nothing twice, nothing that was not sent."""
        assert not self.lost, f"{len(self.lost)} spans lost: {self.lost[:5]}"
        assert not self.twice, f"{len(self.twice)} traces with wrong sums: {self.twice[:5]}"
        assert not self.in_both, f"{len(self.in_both)} spans in two stores: {self.in_both[:5]}"
        assert not self.foreign, f"{len(self.foreign)} spans never sent: {self.foreign[:5]}"
        return self
