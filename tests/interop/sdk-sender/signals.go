// SPDX-License-Identifier: MIT

// The three signals: a provider of the SDK each, with its batching, and what is recorded.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	scope        = "sdk-sender/shop"
	flushEvery   = 100 * time.Millisecond
	retryInitial = 200 * time.Millisecond
	retryMost    = time.Second
	retryFor     = time.Minute
)

// began is the fixed time of the first item, midnight of today, so that it is in the range that a daemon takes.
var began = time.Now().UTC().Truncate(24 * time.Hour)

// idSource gives ids that follow from the seed. Spans are made by one goroutine, in order.
type idSource struct {
	seed string
	made int
}

func (s *idSource) next() [32]byte {
	s.made++
	return sha256.Sum256([]byte(fmt.Sprintf("%s/%d", s.seed, s.made)))
}

func (s *idSource) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	sum := s.next()
	return trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])
}

func (s *idSource) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	sum := s.next()
	return trace.SpanID(sum[:8])
}

func sendTraces(ctx context.Context, s settings, out *output) error {
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(s.endpoint + "/v1/traces"),
		otlptracehttp.WithHeaders(s.headers()),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryInitial,
			MaxInterval: retryMost, MaxElapsedTime: retryFor})}
	if s.gzip {
		options = append(options, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	}
	if s.json {
		options = append(options, otlptracehttp.WithEncoding(otlptracehttp.EncodingJSON))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(s.resource()),
		sdktrace.WithIDGenerator(&idSource{seed: s.seed}),
		sdktrace.WithBatcher(spanExporter{exporter, out}, sdktrace.WithBlocking(),
			sdktrace.WithMaxExportBatchSize(s.batch), sdktrace.WithBatchTimeout(flushEvery),
			sdktrace.WithExportTimeout(patience)))
	tracer := provider.Tracer(scope, trace.WithInstrumentationVersion("1.0"))
	for number := range s.traces {
		makeTrace(ctx, tracer, number)
		time.Sleep(s.pause)
	}
	return provider.Shutdown(ctx)
}

// makeTrace records an agent's turn: the run, a model call with tokens, and a tool call that
// fails now and then.
func makeTrace(ctx context.Context, tracer trace.Tracer, number int) {
	start := began.Add(time.Duration(number) * time.Millisecond)
	at := func(ms int) trace.SpanEventOption {
		return trace.WithTimestamp(start.Add(time.Duration(ms) * time.Millisecond))
	}
	ctx, run := tracer.Start(ctx, "invoke_agent shop", at(0), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.Int("item", number),
			attribute.String("gen_ai.operation.name", "invoke_agent"),
			attribute.String("gen_ai.conversation.id", fmt.Sprintf("conv-%d", number/5)),
			attribute.StringSlice("tags", []string{"a", "ü"}),
			attribute.Bool("cached", number%2 == 0), attribute.Float64("load", float64(number)/4)))
	_, chat := tracer.Start(ctx, "chat m-large", at(1), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(trace.Link{SpanContext: run.SpanContext(), Attributes: []attribute.KeyValue{attribute.Int("n", number)}}),
		trace.WithAttributes(attribute.String("gen_ai.operation.name", "chat"),
			attribute.String("gen_ai.request.model", "m-large"),
			attribute.Int("gen_ai.usage.input_tokens", 100+number),
			attribute.Int("gen_ai.usage.output_tokens", 10+number%90)))
	chat.AddEvent("first token", at(2), trace.WithAttributes(attribute.Int("ms", number%50)))
	chat.SetStatus(codes.Ok, "")
	chat.End(at(3))
	_, tool := tracer.Start(ctx, "execute_tool lookup", at(4), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", "lookup")))
	if number%10 == 0 {
		tool.SetStatus(codes.Error, "order not found")
	}
	tool.End(at(5))
	run.End(at(6))
}

func sendLogs(ctx context.Context, s settings, out *output) error {
	options := []otlploghttp.Option{otlploghttp.WithEndpointURL(s.endpoint + "/v1/logs"),
		otlploghttp.WithHeaders(s.headers()),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: true, InitialInterval: retryInitial,
			MaxInterval: retryMost, MaxElapsedTime: retryFor})}
	if s.gzip {
		options = append(options, otlploghttp.WithCompression(otlploghttp.GzipCompression))
	}
	exporter, err := otlploghttp.New(ctx, options...)
	if err != nil {
		return err
	}
	// A queue for all of them: this processor has no way to wait, it drops what does not fit.
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(s.resource()),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(logExporter{exporter, out},
			sdklog.WithMaxQueueSize(s.logs+1), sdklog.WithExportMaxBatchSize(s.batch),
			sdklog.WithExportInterval(flushEvery), sdklog.WithExportTimeout(patience))))
	logger := provider.Logger(scope, otellog.WithInstrumentationVersion("1.0"))
	ids := &idSource{seed: s.seed + "/log"}
	for number := range s.logs {
		traceID, spanID := ids.NewIDs(ctx)
		within := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled}))
		logger.Emit(within, makeLog(number))
		time.Sleep(s.pause)
	}
	return provider.Shutdown(ctx)
}

func makeLog(number int) otellog.Record {
	var record otellog.Record
	record.SetTimestamp(began.Add(time.Duration(number) * time.Millisecond))
	record.SetObservedTimestamp(began.Add(time.Duration(number)*time.Millisecond + time.Microsecond))
	record.SetSeverity(otellog.Severity(1 + number%24))
	record.SetSeverityText(record.Severity().String())
	record.SetBody(attribute.StringValue(fmt.Sprintf("order %d shipped", number)))
	if number%7 == 0 {
		record.SetEventName("shop.order")
		record.SetBody(attribute.MapValue(attribute.Int("order", number), attribute.Bool("paid", true)))
	}
	record.AddAttributes(attribute.Int("item", number), attribute.Float64("price", float64(number)/4),
		attribute.ByteSlice("receipt", []byte{0, byte(number), 255}),
		attribute.Map("customer", attribute.String("name", "Zoë"), attribute.Int("visits", number)))
	return record
}

func sendPoints(ctx context.Context, s settings, out *output) error {
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithEndpointURL(s.endpoint + "/v1/metrics"),
		otlpmetrichttp.WithHeaders(s.headers()),
		otlpmetrichttp.WithTemporalitySelector(func(sdkmetric.InstrumentKind) metricdata.Temporality {
			// A series is told once: then every point is an item of its own.
			return metricdata.DeltaTemporality
		}),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: retryInitial,
			MaxInterval: retryMost, MaxElapsedTime: retryFor})}
	if s.gzip {
		options = append(options, otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(s.resource()),
		sdkmetric.WithCardinalityLimit(0),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(pointExporter{exporter, out},
			sdkmetric.WithInterval(flushEvery), sdkmetric.WithTimeout(patience))))
	if err := makePoints(ctx, provider.Meter(scope, metric.WithInstrumentationVersion("1.0")), s); err != nil {
		return err
	}
	return provider.Shutdown(ctx)
}

func makePoints(ctx context.Context, meter metric.Meter, s settings) error {
	orders, err := meter.Int64Counter("shop.orders", metric.WithUnit("{order}"))
	if err != nil {
		return err
	}
	load, err := meter.Float64Gauge("shop.load", metric.WithUnit("1"))
	if err != nil {
		return err
	}
	duration, err := meter.Float64Histogram("shop.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(0.1, 1, 10))
	if err != nil {
		return err
	}
	for number := range s.points {
		which := metric.WithAttributes(attribute.Int("item", number), attribute.String("shop", "Köln"))
		orders.Add(ctx, int64(1000+number), which)
		load.Record(ctx, float64(number)/8, which)
		duration.Record(ctx, float64(number%200)/10, which)
		time.Sleep(s.pause)
	}
	return nil
}
