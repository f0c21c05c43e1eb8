# SPDX-License-Identifier: MIT
"""Telemetry as agents send it, encoded by hand: OTLP traces in protobuf and native batches in JSON,
each with ids and token counts of its own, so that what a store holds can be compared with what was
sent, span by span and token by token."""
import json
import struct
import time
import uuid
from dataclasses import dataclass, field


@dataclass
class Span:
    trace_id: str
    span_id: str
    in_tok: int = 0
    out_tok: int = 0


@dataclass
class Request:
    """One POST and what it should leave behind. key is the sender's own Idempotency-Key; without
    one the relay derives it."""
    path: str
    body: bytes
    content_type: str
    spans: list = field(default_factory=list)
    key: str = None
    headers: dict = field(default_factory=dict)

    def all_headers(self):
        headers = {"Content-Type": self.content_type, **self.headers}
        if self.key:
            headers["Idempotency-Key"] = self.key
        return headers


# Protobuf by hand: a field is its number and wire type, then the value.

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pb_bytes(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def pb_varint(number, value):
    return varint(number << 3) + varint(value)


def pb_fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def pb_attribute(number, key, value):
    if isinstance(value, bool):
        any_value = pb_varint(2, int(value))
    elif isinstance(value, int):
        any_value = pb_varint(3, value)
    elif isinstance(value, float):
        any_value = varint(4 << 3 | 1) + struct.pack("<d", value)
    else:
        any_value = pb_bytes(1, value)
    return pb_bytes(number, pb_bytes(1, key) + pb_bytes(2, any_value))


def pb_span(trace_id, span_id, parent_id, name, kind, start_ns, end_ns, attributes, error=""):
    out = pb_bytes(1, bytes.fromhex(trace_id)) + pb_bytes(2, bytes.fromhex(span_id))
    if parent_id:
        out += pb_bytes(4, bytes.fromhex(parent_id))
    out += pb_bytes(5, name) + pb_varint(6, kind) + pb_fixed64(7, start_ns) + pb_fixed64(8, end_ns)
    for key, value in attributes.items():
        out += pb_attribute(9, key, value)
    if error:
        out += pb_bytes(15, pb_bytes(2, error) + pb_varint(3, 2))
    return out


def pb_traces(spans, resource):
    """ExportTraceServiceRequest of one resource and one scope."""
    scope = pb_bytes(1, pb_bytes(1, "agents.shop") + pb_bytes(2, "1.0"))
    for span in spans:
        scope += pb_bytes(2, span)
    attributes = b"".join(pb_attribute(1, k, v) for k, v in resource.items())
    return pb_bytes(1, pb_bytes(1, attributes) + pb_bytes(2, scope))


RESOURCE = {"service.name": "shop-agent", "deployment.environment.name": "test"}


def new_trace_id():
    return uuid.uuid4().hex


def new_span_id():
    return uuid.uuid4().hex[:16]


def agent_spans(number):
    """An agent's turn: the run, a model call with tokens, a tool call; as plain dicts."""
    trace_id, now = new_trace_id(), time.time_ns()
    root, chat, tool = new_span_id(), new_span_id(), new_span_id()
    error = "order not found" if number % 10 == 0 else ""
    return [
        {"trace_id": trace_id, "span_id": root, "parent_id": None,
         "name": "invoke_agent shop-agent", "kind": "server", "start_ns": now - 900_000_000,
         "end_ns": now, "in_tok": 0, "out_tok": 0, "error": "",
         "attrs": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop-agent",
                   "gen_ai.conversation.id": f"conv-{number // 5}"}},
        {"trace_id": trace_id, "span_id": chat, "parent_id": root, "name": "chat m-large",
         "kind": "client", "start_ns": now - 800_000_000, "end_ns": now - 300_000_000,
         "in_tok": 100 + number % 1000, "out_tok": 10 + number % 90, "error": "",
         "attrs": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "acme",
                   "gen_ai.request.model": "m-large",
                   "gen_ai.usage.input_tokens": 100 + number % 1000,
                   "gen_ai.usage.output_tokens": 10 + number % 90,
                   "gen_ai.request.temperature": 0.2}},
        {"trace_id": trace_id, "span_id": tool, "parent_id": root,
         "name": "execute_tool lookup_order", "kind": "internal", "start_ns": now - 300_000_000,
         "end_ns": now - 100_000_000, "in_tok": 0, "out_tok": 0, "error": error,
         "attrs": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup_order",
                   "cached": number % 2 == 0}},
    ]


KINDS = {"internal": 1, "server": 2, "client": 3}


def _facts(spans):
    return [Span(s["trace_id"], s["span_id"], s["in_tok"], s["out_tok"]) for s in spans]


def otlp_request(number, key=None):
    """POST /v1/traces in protobuf."""
    spans = agent_spans(number)
    encoded = [pb_span(s["trace_id"], s["span_id"], s["parent_id"], s["name"], KINDS[s["kind"]],
                       s["start_ns"], s["end_ns"], s["attrs"], s["error"]) for s in spans]
    return Request("/v1/traces", pb_traces(encoded, RESOURCE), "application/x-protobuf",
                   _facts(spans), key)


def native_request(number, key=None, body_key=None, turns=1):
    """POST /v1/ingest in JSON, of so many turns of agents; body_key is the key in the batch, which
    wins over the header's."""
    spans = [span for one in range(number, number + turns) for span in agent_spans(one)]
    events = []
    for span in spans:
        event = {k: span[k] for k in ("trace_id", "span_id", "parent_id", "name", "kind",
                                      "start_ns", "end_ns", "attrs")}
        event.update(type="span", status="error" if span["error"] else "ok")
        if span["error"]:
            event["error"] = span["error"]
        events.append(event)
    batch = {"schema": 1, "resource": RESOURCE, "events": events}
    if body_key:
        batch["idempotency_key"] = body_key
    return Request("/v1/ingest", json.dumps(batch).encode(), "application/json", _facts(spans), key)


def mixed(count, first=0, own_keys=True):
    """count requests in turn: OTLP, native; every third with a key of the sender's own."""
    for number in range(first, first + count):
        key = f"sent-{uuid.uuid4().hex}" if own_keys and number % 3 == 0 else None
        yield (otlp_request if number % 2 == 0 else native_request)(number, key)


def endless():
    """As mixed, without an end."""
    number = 0
    while True:
        yield from mixed(1000, number)
        number += 1000
