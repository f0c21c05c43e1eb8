# SPDX-License-Identifier: MIT
"""OTLP trace requests for B8: one body as a pattern, and where in it ids and times stand, for
span_load to change from request to request."""
import json
import os
import pathlib
import struct
import subprocess
import time

from lib.telemetry import KINDS, RESOURCE, pb_span, pb_traces

SPANS_PER_TRACE = 10
MESSAGES = [{"role": "user", "parts": [{"type": "text", "content":
             "Where is my order 1723-A? It should have been here on Monday, and nobody told me."}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1",
             "name": "lookup_order", "arguments": {"order": "1723-A", "with_history": True}}]}]


def attributes(number):
    """What an agent's spans say: the run, then calls to the model and to a tool by turns."""
    common = {"gen_ai.conversation.id": f"conv-{number // SPANS_PER_TRACE:06}",
              "gen_ai.agent.name": "shop-agent", "user.id": f"user-{number % 977:05}",
              "app.version": "2026.11.3", "app.region": "eu-central-1",
              "thread.name": f"worker-{number % 16}"}
    if number % SPANS_PER_TRACE == 0:
        return "invoke_agent shop-agent", "server", {
            **common, "gen_ai.operation.name": "invoke_agent", "http.route": "/v1/chat"}
    if number % 2 == 1:
        return "chat m-large", "client", {
            **common, "gen_ai.operation.name": "chat", "gen_ai.provider.name": "acme",
            "gen_ai.request.model": "m-large", "gen_ai.response.model": "m-large-2026-08",
            "gen_ai.usage.input_tokens": 800 + number % 500, "gen_ai.usage.output_tokens": 90,
            "gen_ai.usage.cache_read.input_tokens": 512, "gen_ai.request.temperature": 0.2,
            "gen_ai.response.id": f"resp-{number:08}", "server.address": "models.example",
            "gen_ai.input.messages": json.dumps(MESSAGES)}
    return "execute_tool lookup_order", "internal", {
        **common, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup_order",
        "gen_ai.tool.call.id": f"call-{number:08}", "db.system.name": "postgresql",
        "db.query.summary": "SELECT orders", "cached": number % 3 == 0}


class Pattern:
    """The body of a request of `count` spans, in files for span_load."""

    def __init__(self, folder, count):
        self.count, self.traces = count, -(-count // SPANS_PER_TRACE)
        self.marks = []  # (bytes as they stand in the body, kind, number)
        ids = [os.urandom(8) for _ in range(count)]
        now = time.time_ns()
        spans, trace = [], b""
        for number, span_id in enumerate(ids):
            if number % SPANS_PER_TRACE == 0:
                trace = self._mark(os.urandom(8), "trace", number // SPANS_PER_TRACE)
            self._mark(span_id, "span", number)
            root = number - number % SPANS_PER_TRACE
            name, kind, attrs = attributes(number)
            spans.append(pb_span(
                (trace + b"\x81tracein").hex(), span_id.hex(),
                ids[root].hex() if number != root else None, name, KINDS[kind],
                self._time(now, 1000 * number - 10**9), self._time(now, 1000 * number - 10**6),
                attrs))
        self.body = pb_traces(spans, RESOURCE)
        self.body_path = pathlib.Path(folder) / f"spans-{count}.pb"
        self.patches_path = pathlib.Path(folder) / f"spans-{count}.patches"
        self.body_path.write_bytes(self.body)
        self.patches_path.write_text("".join(f"{offset} {kind} {number}\n"
                                             for offset, kind, number in self._patches()))

    def _mark(self, mark, kind, number):
        self.marks.append((mark, kind, number))
        return mark

    def _time(self, now, ahead):
        self._mark(struct.pack("<Q", now + ahead), "time", ahead)
        return now + ahead

    def _patches(self):
        for mark, kind, number in self.marks:
            offset = self.body.find(mark)
            while offset >= 0:
                yield offset, kind, number
                offset = self.body.find(mark, offset + 1)


class SpanLoad:
    """The load on one daemon: every run goes on with the numbers after the last one's."""

    def __init__(self, program, pattern, port, connections):
        self.program, self.pattern = program, pattern
        self.port, self.connections = port, connections
        self.accepted, self.refused, self.broken = 0, 0, 0

    def run(self, seconds):
        """Spans a second that were answered 2xx."""
        done = subprocess.run(
            [str(self.program), str(self.port), str(seconds), str(self.connections),
             str(self.pattern.body_path), str(self.pattern.patches_path), str(self.accepted)],
            capture_output=True, text=True, check=True)
        result = json.loads(done.stdout)
        self.accepted += result["accepted"]
        self.refused += result["refused"]
        self.broken += result["broken"]
        return result["per_second"] * self.pattern.count
