# SPDX-License-Identifier: MIT
"""What tests send to a daemon by hand, and what they read of its answers."""
import json
import time

from lib import http
from lib.telemetry import new_span_id, new_trace_id


def send(daemon, request, **headers):
    return http.request(daemon.port, "POST", request.path, request.body,
                        {**request.all_headers(), **headers})


def counts(reply):
    """(accepted, duplicate, rejected) as the headers say."""
    return tuple(int(reply.headers["mcpd-" + name])
                 for name in ("accepted", "duplicate", "rejected"))


def read(daemon, path):
    reply = http.get(daemon.port, path)
    assert reply.status == 200, reply
    return json.loads(reply.body)


def native(events, **members):
    return json.dumps({"schema": 1, "events": events, **members}).encode()


def event(**members):
    """A span as a native event."""
    now = time.time_ns()
    return {"type": "span", "trace_id": new_trace_id(), "span_id": new_span_id(), "name": "chat m",
            "kind": "client", "start_ns": now, "end_ns": now + 1000, **members}
