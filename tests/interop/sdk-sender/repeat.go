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

func (o *output) repeat(ctx context.Context, signal string, export func() error) error {
	for {
		err := export()
		if err == nil {
			return nil
		}
		o.failed(signal, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitBeforeRepeat):
		}
	}
}

type spanExporter struct {
	sdktrace.SpanExporter
	out *output
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.out.repeat(ctx, "span", func() error { return e.SpanExporter.ExportSpans(ctx, spans) })
	if err == nil {
		e.out.sent("span", spanItems(spans))
	}
	return err
}

type logExporter struct {
	sdklog.Exporter
	out *output
}

func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	err := e.out.repeat(ctx, "log", func() error { return e.Exporter.Export(ctx, records) })
	if err == nil {
		e.out.sent("log", logItems(records))
	}
	return err
}

type pointExporter struct {
	sdkmetric.Exporter
	out *output
}

func (e pointExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	err := e.out.repeat(ctx, "point", func() error { return e.Exporter.Export(ctx, data) })
	if err == nil {
		e.out.sent("point", pointItems(data))
	}
	return err
}
