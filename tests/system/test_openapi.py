# SPDX-License-Identifier: MIT
"""docs/openapi.yaml says what a running daemon and relay do, all of it and nothing else: paths,
methods, parameters, members, statuses."""
import json
import pathlib
import re
import time
from urllib.parse import quote

import jsonschema
import pytest
import yaml

from lib import http, settings
from lib.process import ROOT, Site
from lib.telemetry import native_request, new_span_id, new_trace_id
from lib.wait import wait_until

SPEC = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
SDK = ROOT / "tests" / "data" / "otlp"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
PROBES = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")}
METHODS = ("get", "post", "put", "delete", "patch", "head", "options")
OPERATIONS = [(method.upper(), path) for path, item in SPEC["paths"].items()
              for method in item if method in METHODS]
RELAY_ONLY = ("POST", "/{any}")
LISTS = [path for method, path in OPERATIONS if method == "GET" and path.startswith("/v1/")]
FOLDERS = {"/v1/traces/{trace_id}": "/v1/traces/", "/v1/sessions/{session}": "/v1/sessions/"}


def resolve(node):
    """What a $ref stands for."""
    while "$ref" in node:
        target = SPEC
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        node = target
    return node


def operation(method, path):
    return SPEC["paths"][path][method.lower()]


def parameters(path, place="query"):
    """{name: parameter} of reading."""
    found = [resolve(one) for one in operation("GET", path).get("parameters", [])]
    return {one["name"]: one for one in found if one["in"] == place}


def validator(schema):
    resolver = jsonschema.RefResolver("", SPEC)
    return jsonschema.Draft202012Validator(schema, resolver=resolver)


def check_answer(method, path, reply):
    """The answer is one that the operation documents: its status, type, headers and body."""
    responses = operation(method, path)["responses"]
    assert str(reply.status) in responses, (method, path, reply)
    response = resolve(responses[str(reply.status)])
    content_type = reply.headers["content-type"].split(";")[0]
    assert content_type in response["content"], (method, path, reply)
    if content_type == JSON:
        validator(response["content"][JSON]["schema"]).validate(json.loads(reply.body))
    for name, header in response.get("headers", {}).items():
        value = reply.headers.get(name.lower())
        assert value or not header.get("required"), (name, reply)
        if value:
            is_number = header["schema"].get("type") == "integer"
            validator(header["schema"]).validate(int(value) if is_number else value)
    return reply


def refs(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


# The file itself

def test_the_file_is_sound():
    used = {one["$ref"] for one in refs(SPEC)}
    for one in refs(SPEC):
        resolve(one)
    for group in ("schemas", "parameters", "responses", "requestBodies"):
        for name in SPEC["components"][group]:
            assert f"#/components/{group}/{name}" in used, f"nothing uses {group}/{name}"
    for schema in SPEC["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        validator({"$ref": "#/components/schemas/Traces"}).validate({"traces": [{"color": 1}]})


def test_every_route_of_the_daemon_is_there_and_no_other():
    source = (ROOT / "store" / "store_main.c").read_text()
    routes = set(re.findall(r'\.method = "(\w+)",\s*\.path = "([^"]+)"', source))
    assert len(routes) > 10
    documented = {(method, FOLDERS.get(path, path)) for method, path in OPERATIONS}
    assert documented == routes | PROBES | {RELAY_ONLY}


def test_every_status_and_code_is_there():
    """Those of docs/statuses.md, which comes from the tables of the program."""
    page = (ROOT / "docs" / "statuses.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| (\d{3}) \| `(\w+)` \|", page, re.M))
    assert len(rows) > 35
    assert {code for _, code in rows} == set(SPEC["components"]["schemas"]["ErrorCode"]["enum"])
    everywhere = {status for method, path in OPERATIONS
                  for status in operation(method, path)["responses"]}
    # 405 is an answer to a method that a path does not have, so no operation has it.
    assert {status for status, _ in rows} - {"405"} == everywhere - {"200", "202"}
    rejects = set(re.findall(r"^\| `(\w+)` \|", page.split("## Why an event")[1], re.M))
    documented = set(SPEC["components"]["schemas"]["RejectCode"]["enum"])
    assert documented == rejects | {"store_refused"}


EVENT_TABLES = {"span": "SpanEvent", "log": "LogEvent", "metric": "MetricEvent",
                "score": "ScoreEvent", "run": "RunEvent"}


@pytest.mark.parametrize("kind", EVENT_TABLES)
def test_every_field_of_native_events_is_there(kind):
    """The tables by which the decoder reads them."""
    source = "".join((ROOT / "proto" / name).read_text()
                     for name in ("native_types.c", "native_span.c"))
    table = re.search(rf"struct field {kind}_fields\[\] = {{(.*?)\n}};", source, re.S).group(1)
    fields = set(re.findall(r'\{"(\w+)"', table))
    assert len(fields) > 4
    schema = SPEC["components"]["schemas"][EVENT_TABLES[kind]]
    assert set(schema["properties"]) - {"type"} == fields


# The running daemon

def everything():
    """A batch with an event of each type, every field of it filled."""
    now, trace_id, span_id, root_id = time.time_ns(), new_trace_id(), new_span_id(), new_span_id()
    attrs = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "acme", "n": [1, {"a": 2.5}],
             "gen_ai.request.model": "m-large", "gen_ai.usage.input_tokens": 7,
             "gen_ai.usage.output_tokens": 3, "gen_ai.conversation.id": "conv-1",
             "gen_ai.input.messages": "hello", "gen_ai.agent.name": "shop-agent",
             "gen_ai.tool.name": "lookup_order", "user.id": "u1", "mcp.method.name": "tools/call",
             "mcp.session.id": "m1", "gen_ai.usage.cache_read.input_tokens": 1,
             "gen_ai.usage.reasoning.output_tokens": 1}
    link = {"trace_id": new_trace_id(), "span_id": new_span_id(), "attrs": {"l": 1}}
    events = [
        {"type": "span", "id": "mine", "trace_id": trace_id, "span_id": span_id,
         "parent_id": root_id, "name": "chat m-large", "kind": "client", "start_ns": now,
         "end_ns": now + 5, "status": "error", "status_message": "too slow", "error": "timeout",
         "trace_state": "a=b", "attrs": attrs, "links": [link],
         "events": [{"ts_ns": now + 1, "name": "e", "attrs": {"k": True}}]},
        {"type": "span", "trace_id": trace_id, "span_id": root_id, "name": "invoke_agent",
         "start_ns": now, "end_ns": now + 9, "attrs": attrs},
        {"type": "log", "id": "l1", "ts_ns": now, "severity": "warn", "body": {"deep": [None]},
         "event_name": "order.placed", "trace_id": trace_id, "span_id": span_id, "attrs": attrs},
        {"type": "log", "ts_ns": now, "severity": 17, "body": "text", "attrs": {}},
        {"type": "metric", "id": "m1", "name": "queue.depth", "unit": "1", "kind": "sum",
         "temporality": "delta", "monotonic": True, "ts_ns": now, "start_ns": now - 9, "value": 4,
         "attrs": attrs},
        {"type": "metric", "ts_ns": now, "name": "queue.depth", "value": 0.5},
        {"type": "score", "id": "s1", "name": "helpful", "value": 0.8, "data_type": "number",
         "trace_id": trace_id, "span_id": span_id, "source": "human", "comment": "good",
         "scorer": "me", "version": "1", "ts_ns": now},
        {"type": "score", "name": "topic", "value": "refund", "data_type": "label",
         "session_id": "conv-1"},
        {"type": "score", "name": "done", "value": True, "data_type": "boolean", "run_id": "r1"},
        {"type": "run", "id": "r1", "state": "done", "trace_id": trace_id, "start_ns": now,
         "end_ns": now + 1, "attrs": attrs},
    ]
    return {"schema": 1, "idempotency_key": f"all-{trace_id}", "events": events,
            "resource": {"service.name": "shop-agent", "deployment.environment.name": "test"}}


def send(daemon, batch):
    return check_answer("POST", "/v1/ingest",
                        http.post(daemon.port, "/v1/ingest", json.dumps(batch).encode(), JSON))


@pytest.fixture(scope="module", name="daemon", params=["sqlite", "postgres"])
def daemon_(request, tmp_path_factory):
    """A daemon that holds something of everything, on each kind of store."""
    is_postgres = request.param == "postgres"
    server = request.getfixturevalue("postgres_server") if is_postgres else None
    with Site(tmp_path_factory.mktemp("openapi"), server) as site:
        daemon = site.daemon().wait_ready()
        batch = everything()
        validator({"$ref": "#/components/schemas/Batch"}).validate(batch)
        daemon.trace_id = batch["events"][0]["trace_id"]
        reply = send(daemon, batch)
        assert json.loads(reply.body) == {"accepted": 10, "duplicate": 0, "rejected": 0}
        bad = [{"type": "span", "id": "x", "name": "bad"}, batch["events"][3]]
        assert json.loads(send(daemon, {"events": bad}).body)["rejected"] == 1
        send(daemon, json.loads(native_request(1).body))
        for signal in ("traces", "logs", "metrics"):
            for suffix, content_type in ((".json", JSON), (".pb", PROTOBUF)):
                body = (SDK / f"sdk-{signal}{suffix}").read_bytes()
                reply = http.post(daemon.port, f"/v1/{signal}", body, content_type)
                assert check_answer("POST", f"/v1/{signal}", reply).status == 200
                assert int(reply.headers["mcpd-accepted"]) + int(reply.headers["mcpd-duplicate"]) > 0
        daemon.wait_metric("mcpd_lease_held", 1)
        yield daemon


def at(path, daemon):
    """The path with its parameters filled in."""
    return path.format(trace_id=daemon.trace_id, session="conv-1")


def read(daemon, path, query=""):
    reply = http.get(daemon.port, at(path, daemon) + query)
    return check_answer("GET", path, reply)


def row_members(path):
    """The documented members of the rows of a list."""
    response = resolve(operation("GET", path)["responses"]["200"])
    schema = resolve(response["content"][JSON]["schema"])
    row = resolve(next(one["items"] for one in schema["properties"].values() if "items" in one))
    return set(row["properties"] if "properties" in row else resolve(row["allOf"][0])["properties"])


@pytest.mark.parametrize("path", LISTS)
def test_answers_are_as_documented_and_full_of_members(daemon, path):
    reply = read(daemon, path)
    assert reply.status == 200
    rows = [row for rows in json.loads(reply.body).values() if isinstance(rows, list)
            for row in rows]
    assert rows
    unseen = row_members(path) - set().union(*rows)
    assert unseen <= {"cost_micro", "label", "trace_flags", "dropped", "flags", "scope", "error"}


@pytest.mark.parametrize("path", LISTS)
def test_the_documented_parameters_are_those_there_are(daemon, path):
    """The daemon itself names them when it refuses another one."""
    reply = read(daemon, path, "?no_such=1")
    assert reply.status == 400
    message = json.loads(reply.body)["error"]["message"]
    named = re.fullmatch(r"there is no parameter no_such, only (.*)", message)
    allowed = set(named.group(1).split(", ")) if named else set()
    assert named or message == "one trace takes no parameters"
    assert set(parameters(path)) == allowed - set(parameters(path, "path"))


@pytest.mark.parametrize("path", LISTS)
def test_every_documented_parameter_is_taken(daemon, path):
    for name, parameter in parameters(path).items():
        if name == "cursor":
            reply = read(daemon, path, "?limit=1")
            value = json.loads(reply.body)["next_cursor"]
        else:
            value = parameter["example"]
        validator(parameter["schema"]).validate(value)
        reply = read(daemon, path, f"?{name}={quote(str(value))}")
        assert reply.status == 200, (name, reply)


def test_values_beyond_a_parameters_schema_are_refused(daemon):
    for query in ("limit=0", "limit=201", "from=yesterday", "cursor=xyz", "session=", "status=odd",
                  "min_ms=-1", "project=another", "limit=1&limit=2"):
        assert read(daemon, "/v1/traces", "?" + query).status == 400, query
    assert read(daemon, "/v1/logs", "?trace_id=0af7").status == 400


def test_probes_answer_as_documented(daemon):
    for _, path in sorted(PROBES):
        assert read(daemon, path).status == 200


def test_methods_that_are_not_documented_are_refused(daemon):
    for path in SPEC["paths"]:
        if path == RELAY_ONLY[1]:
            continue
        documented = {method for method, other in OPERATIONS if other == path}
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            if method in documented:
                continue
            reply = http.request(daemon.port, method, at(path, daemon))
            assert reply.status == 405, (method, path, reply)
            allow = {one for one in reply.headers["allow"].split(", ") if one != "HEAD"}
            assert allow == documented, (method, path)


BAD = {
    "/v1/ingest": [(b"{", JSON, {}, 400), (b'{"events":[{}]}', JSON, {}, 400),
                   (b"x", "text/plain", {}, 415), (b"{}", JSON, {"Content-Encoding": "br"}, 415),
                   (b"{}", JSON, {"Idempotency-Key": "a b"}, 400),
                   (b'{"events":[' + b"{}," * 10000 + b"{}]}", JSON, {}, 413)],
    "/v1/traces": [(b"{", JSON, {}, 400), (b"x", "text/plain", {}, 415),
                   (b"\xff", PROTOBUF, {}, 400)],
}


@pytest.mark.parametrize("path", BAD)
def test_refusals_are_as_documented(daemon, path):
    for body, content_type, headers, status in BAD[path]:
        reply = http.post(daemon.port, path, body, content_type, headers)
        assert check_answer("POST", path, reply).status == status
    reply = http.get(daemon.port, "/v1/traces/" + new_trace_id())
    assert check_answer("GET", "/v1/traces/{trace_id}", reply).status == 404


def test_keys_are_asked_for_as_documented(site):
    daemon = site.daemon(ingest_key=["shop/in=sender-key-0123456", "shop/rd=reader-key-0123456"])
    known = {"in": "sender-key-0123456", "rd": "reader-key-0123456", None: "a-key-nobody-knows"}
    for method, path in OPERATIONS:
        if (method, path) == RELAY_ONLY:
            continue
        is_open = operation(method, path).get("security") == []
        wrong = known["rd" if method == "POST" else "in"]
        for key, status in ((known[None], 401), (wrong, 403)):
            reply = http.request(daemon.port, method, path.format(trace_id="0" * 32, session="s"),
                                 b"{}" * (method == "POST"),
                                 {"Content-Type": JSON, "x-mcpd-key": key})
            check_answer(method, path, reply)
            assert reply.status == (200 if is_open else status), (method, path, reply)


def test_quotas_refuse_as_documented(site, tmp_path):
    config = settings.write(tmp_path / "mcpd.yaml", keys=[settings.key("shop", "in", "shop")],
                            projects={"shop": {"quota": {"requests": 2, "events": 50}}})
    daemon = site.daemon(config=config)

    def post(path, body):
        reply = http.post(daemon.port, path, body, JSON, {"x-mcpd-key": "shop"})
        return check_answer("POST", path, reply)
    log = {"type": "log", "ts_ns": time.time_ns()}
    reply = post("/v1/ingest", json.dumps({"events": [log] * 51}).encode())
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (413, "over_ceiling")
    wait_until(lambda: post("/v1/ingest", b'{"events":[]}').status == 429, what="a quota used up")
    assert post("/v1/traces", b"{}").status == 429


# The running relay

def test_a_relay_answers_as_documented(site):
    relay = site.relay(upstream="http://127.0.0.1:1")
    for method, path in OPERATIONS:
        real = path.format(any="v2/anything", trace_id=pathlib.Path("x"), session="s")
        body = b'{"events":[]}' if method == "POST" else b""
        reply = http.request(relay.port, method, real, body, {"Content-Type": JSON})
        if method == "POST" or (method, path) in PROBES:
            check_answer(method, path, reply)
            assert reply.status in (200, 202), (method, path, reply)
        else:
            assert reply.status == 405, (method, path, reply)
    reply = http.post(relay.port, "/v2/any", b"{}", JSON, {"Idempotency-Key": "a b"})
    assert check_answer(*RELAY_ONLY, reply).status == 400
