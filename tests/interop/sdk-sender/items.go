// SPDX-License-Identifier: MIT

// Items as JSON: what the SDK says it sent, in the form in which the test reads it back.
package main

import (
	"encoding/base64"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// value keeps the type: bytes are {"bytes": base64}, all else is plain JSON.
func value(v attribute.Value) any {
	switch v.Type() {
	case attribute.BYTESLICE:
		return fields{"bytes": base64.StdEncoding.EncodeToString(v.AsByteSlice())}
	case attribute.MAP:
		return object(v.AsMap())
	case attribute.SLICE:
		list := []any{}
		for _, one := range v.AsSlice() {
			list = append(list, value(one))
		}
		return list
	}
	return v.AsInterface()
}

func object(attributes []attribute.KeyValue) fields {
	result := fields{}
	for _, one := range attributes {
		result[string(one.Key)] = value(one.Value)
	}
	return result
}

// statusCodes are OTLP's numbers; the SDK counts otherwise.
var statusCodes = map[codes.Code]int{codes.Unset: 0, codes.Ok: 1, codes.Error: 2}

// temporalities are OTLP's numbers too.
var temporalities = map[metricdata.Temporality]int{
	metricdata.DeltaTemporality: 1, metricdata.CumulativeTemporality: 2}

func spanItems(spans []sdktrace.ReadOnlySpan) []fields {
	items := []fields{}
	for _, span := range spans {
		events := []fields{}
		for _, event := range span.Events() {
			events = append(events, fields{"ts_ns": event.Time.UnixNano(), "name": event.Name,
				"attributes": object(event.Attributes)})
		}
		links := []fields{}
		for _, link := range span.Links() {
			links = append(links, fields{"trace_id": link.SpanContext.TraceID().String(),
				"span_id": link.SpanContext.SpanID().String(), "attributes": object(link.Attributes)})
		}
		items = append(items, fields{
			"trace_id": span.SpanContext().TraceID().String(),
			"span_id":  span.SpanContext().SpanID().String(), "parent_id": idText(span.Parent().SpanID()),
			"name": span.Name(), "kind": int(span.SpanKind()),
			"start_ns": span.StartTime().UnixNano(), "end_ns": span.EndTime().UnixNano(),
			"status": statusCodes[span.Status().Code], "message": span.Status().Description,
			"attributes": object(span.Attributes()), "events": events, "links": links,
			"resource": object(span.Resource().Attributes()),
			"scope":    span.InstrumentationScope().Name})
	}
	return items
}

func idText(id trace.SpanID) string {
	if !id.IsValid() {
		return ""
	}
	return id.String()
}

func logItems(records []sdklog.Record) []fields {
	items := []fields{}
	for i := range records {
		record := &records[i]
		attributes := []attribute.KeyValue{}
		record.WalkAttributes(func(one attribute.KeyValue) bool {
			attributes = append(attributes, one)
			return true
		})
		traceID := record.TraceID()
		items = append(items, fields{
			"ts_ns": record.Timestamp().UnixNano(), "observed_ns": record.ObservedTimestamp().UnixNano(),
			"severity": int(record.Severity()), "severity_text": record.SeverityText(),
			"event": record.EventName(), "body": value(record.Body()),
			"trace_id": hex.EncodeToString(traceID[:]), "span_id": record.SpanID().String(),
			"attributes": object(attributes), "resource": object(record.Resource().Attributes()),
			"scope": record.InstrumentationScope().Name})
	}
	return items
}

func pointItems(data *metricdata.ResourceMetrics) []fields {
	items := []fields{}
	for _, scope := range data.ScopeMetrics {
		for _, metric := range scope.Metrics {
			for _, point := range pointsOf(metric.Data) {
				point["name"], point["unit"] = metric.Name, metric.Unit
				point["resource"] = object(data.Resource.Attributes())
				point["scope"] = scope.Scope.Name
				items = append(items, point)
			}
		}
	}
	return items
}

func pointsOf(data metricdata.Aggregation) []fields {
	items := []fields{}
	switch kind := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range kind.DataPoints {
			items = append(items, fields{"type": "sum", "value": p.Value, "ts_ns": p.Time.UnixNano(),
				"monotonic": kind.IsMonotonic, "temporality": temporalities[kind.Temporality],
				"start_ns": p.StartTime.UnixNano(), "attributes": object(p.Attributes.ToSlice())})
		}
	case metricdata.Gauge[float64]:
		for _, p := range kind.DataPoints {
			items = append(items, fields{"type": "gauge", "value": p.Value, "ts_ns": p.Time.UnixNano(),
				"attributes": object(p.Attributes.ToSlice())})
		}
	case metricdata.Histogram[float64]:
		for _, p := range kind.DataPoints {
			items = append(items, fields{"type": "histogram", "sum": p.Sum, "count": p.Count,
				"buckets": p.BucketCounts, "bounds": p.Bounds, "ts_ns": p.Time.UnixNano(),
				"temporality": temporalities[kind.Temporality], "start_ns": p.StartTime.UnixNano(),
				"attributes": object(p.Attributes.ToSlice())})
		}
	default:
		panic("a metric of a kind that sdk-sender does not make")
	}
	return items
}
