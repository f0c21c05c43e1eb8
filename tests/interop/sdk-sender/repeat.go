// SPDX-License-Identifier: MIT

// The exporters as the SDK sees them: each hands the items to the real one again and again until
// that returns nil. The plain exporters give up on a refused connection, and after a minute.
package main

import (
	"context"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const waitBeforeRepeat = 50 * time.Millisecond

// repeat calls export until it succeeds. The context it is given has no end: at its shutdown the SDK
// cancels an Export of metrics that is under way, and the points in it would never be sent.
func (o *output) repeat(ctx context.Context, signal string, export func(context.Context) error) {
	for {
		err := export(context.WithoutCancel(ctx))
		if err == nil {
			return
		}
		o.failed(signal, err)
		time.Sleep(waitBeforeRepeat)
	}
}

type spanExporter struct {
	sdktrace.SpanExporter
	out *output
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.out.repeat(ctx, "span", func(ctx context.Context) error { return e.SpanExporter.ExportSpans(ctx, spans) })
	e.out.sent("span", spanItems(spans))
	return nil
}

type logExporter struct {
	sdklog.Exporter
	out *output
}

func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	e.out.repeat(ctx, "log", func(ctx context.Context) error { return e.Exporter.Export(ctx, records) })
	e.out.sent("log", logItems(records))
	return nil
}

type pointExporter struct {
	sdkmetric.Exporter
	out *output
}

func (e pointExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	e.out.repeat(ctx, "point", func(ctx context.Context) error { return e.Exporter.Export(ctx, data) })
	e.out.sent("point", pointItems(data))
	return nil
}
