# SPDX-License-Identifier: MIT
"""Reads OTLP protobuf bodies into items of the form in which sdk-sender prints what it sent. Only
the parts of the schema that an SDK or a Collector fills; an unknown field is an error, so that
nothing is passed over in a comparison."""
import base64
import gzip
import struct


def raw_fields(data):
    """[(number, value)]: an int for varint and fixed fields, bytes for length-delimited ones."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "cut field"
        elif wire == 5:
            value, at = int.from_bytes(data[at:at + 4], "little"), at + 4
        else:
            raise AssertionError(f"wire type {wire}")
        yield number, value


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data, schema):
    """schema: number -> (name, reader), with "[]" at the end of a repeated field's name."""
    result = {}
    for number, value in raw_fields(data):
        name, reader = schema[number]
        if name.endswith("[]"):
            result.setdefault(name[:-2], []).append(reader(value))
        else:
            result[name] = reader(value)
    return result


def text(value):
    return value.decode()


def number(value):
    return value


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def double(value):
    return struct.unpack("<d", value.to_bytes(8, "little"))[0]


def packed(form):
    def read(value):
        if isinstance(value, int):
            value = value.to_bytes(8, "little")
        return list(struct.unpack(f"<{len(value) // 8}{form}", value))
    return read


def hexed(value):
    return value.hex()


def any_value(data):
    for field, value in raw_fields(data):
        return {1: text, 2: bool, 3: signed, 4: double,
                5: lambda v: [any_value(one) for number, one in raw_fields(v)],
                6: attributes_of, 7: lambda v: {"bytes": base64.b64encode(v).decode()}}[field](value)
    return None


def attributes_of(list_data):
    return dict(attribute(one) for number, one in raw_fields(list_data))


def attribute(data):
    key, value = "", None
    for field, content in raw_fields(data):
        if field == 1:
            key = content.decode()
        else:
            assert field == 2
            value = any_value(content)
    return key, value


def resource(data):
    return dict(message(data, {1: ("attributes[]", attribute), 2: ("dropped", number)})
                .get("attributes", []))


def scope(data):
    return message(data, {1: ("name", text), 2: ("version", text), 3: ("attributes[]", attribute),
                          4: ("dropped", number)}).get("name", "")


def schema_message(schema):
    def read(data):
        found = message(data, schema)
        if "attributes" in found:
            found["attributes"] = dict(found["attributes"])
        return found
    return read


EVENT = schema_message({1: ("ts_ns", number), 2: ("name", text), 3: ("attributes[]", attribute)})
LINK = schema_message({1: ("trace_id", hexed), 2: ("span_id", hexed), 3: ("trace_state", text),
                       4: ("attributes[]", attribute), 6: ("flags", number)})
STATUS = schema_message({2: ("message", text), 3: ("code", number)})
SPAN = schema_message({
    1: ("trace_id", hexed), 2: ("span_id", hexed), 3: ("trace_state", text), 4: ("parent_id", hexed),
    5: ("name", text), 6: ("kind", number), 7: ("start_ns", number), 8: ("end_ns", number),
    9: ("attributes[]", attribute), 11: ("events[]", EVENT), 13: ("links[]", LINK),
    15: ("status", STATUS), 16: ("flags", number)})
LOG = schema_message({
    1: ("ts_ns", number), 2: ("severity", number), 3: ("severity_text", text), 5: ("body", any_value),
    6: ("attributes[]", attribute), 8: ("flags", number), 9: ("trace_id", hexed),
    10: ("span_id", hexed), 11: ("observed_ns", number), 12: ("event", text)})
POINT = schema_message({2: ("start_ns", number), 3: ("ts_ns", number), 4: ("value", double),
                        6: ("value", signed), 7: ("attributes[]", attribute), 8: ("flags", number)})
HISTOGRAM_POINT = schema_message({
    2: ("start_ns", number), 3: ("ts_ns", number), 4: ("count", number), 5: ("sum", double),
    6: ("buckets", packed("Q")), 7: ("bounds", packed("d")), 9: ("attributes[]", attribute),
    10: ("flags", number), 11: ("min", double), 12: ("max", double)})
DATA = {3: ("unit", text), 1: ("name", text), 2: ("description", text),
        5: ("gauge", schema_message({1: ("points[]", POINT)})),
        7: ("sum", schema_message({1: ("points[]", POINT), 2: ("temporality", number),
                                   3: ("monotonic", bool)})),
        9: ("histogram", schema_message({1: ("points[]", HISTOGRAM_POINT),
                                         2: ("temporality", number)}))}


def _walk(body, item_number, reader):
    """(resource, scope, item) of an Export request of any signal."""
    for _, group in raw_fields(body):
        group = message(group, {1: ("resource", resource), 2: ("scopes[]", bytes),
                                3: ("schema_url", text)})
        for scoped in group.get("scopes", []):
            found = message(scoped, {1: ("scope", scope), item_number: ("items[]", reader),
                                     3: ("schema_url", text)})
            for item in found.get("items", []):
                yield group.get("resource", {}), found.get("scope", ""), item


def spans(body):
    for resource_, scope_, span in _walk(body, 2, SPAN):
        status = span.get("status", {})
        yield {"is": "span", "trace_id": span["trace_id"], "span_id": span["span_id"],
               "parent_id": span.get("parent_id", ""), "name": span["name"],
               "kind": span.get("kind", 0), "start_ns": span["start_ns"], "end_ns": span["end_ns"],
               "status": status.get("code", 0), "message": status.get("message", ""),
               "attributes": span.get("attributes", {}),
               "events": [{"attributes": {}, **event} for event in span.get("events", [])],
               "links": [{"trace_id": link["trace_id"], "span_id": link["span_id"],
                          "attributes": link.get("attributes", {})} for link in span.get("links", [])],
               "resource": resource_, "scope": scope_}


def logs(body):
    for resource_, scope_, log in _walk(body, 2, LOG):
        yield {"is": "log", "ts_ns": log["ts_ns"], "observed_ns": log["observed_ns"],
               "severity": log.get("severity", 0), "severity_text": log.get("severity_text", ""),
               "event": log.get("event", ""), "body": log.get("body"),
               "trace_id": log.get("trace_id", ""), "span_id": log.get("span_id", ""),
               "attributes": log.get("attributes", {}), "resource": resource_, "scope": scope_}


def points(body):
    for resource_, scope_, metric in _walk(body, 2, lambda data: message(data, DATA)):
        kind, = {"gauge", "sum", "histogram"} & set(metric)
        data = metric[kind]
        for point in data.get("points", []):
            item = {"is": "point", "type": kind, "name": metric["name"],
                    "unit": metric.get("unit", ""), "ts_ns": point["ts_ns"],
                    "attributes": point.get("attributes", {}), "resource": resource_,
                    "scope": scope_}
            if kind == "gauge":
                item["value"] = point["value"]
            else:
                item["start_ns"], item["temporality"] = point["start_ns"], data["temporality"]
            if kind == "sum":
                item["value"], item["monotonic"] = point["value"], data.get("monotonic", False)
            if kind == "histogram":
                item.update(sum=point["sum"], count=point["count"], buckets=point["buckets"],
                            bounds=point["bounds"])
            yield item


READERS = {"/v1/traces": spans, "/v1/logs": logs, "/v1/metrics": points}


def plain(request):
    """The body of a request at an upstream without its Content-Encoding."""
    encoding = request.header("Content-Encoding")
    assert encoding in (None, "gzip"), request
    return gzip.decompress(request.body) if encoding else request.body


def items_of(requests):
    """All items of requests at an upstream, in order."""
    return [item for request in requests for item in READERS[request.target](plain(request))]
