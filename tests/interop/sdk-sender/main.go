// SPDX-License-Identifier: MIT

// sdk-sender: spans, log records and metric points made and sent by the OpenTelemetry SDK over
// OTLP/HTTP protobuf, for a test that reads them back and compares.
//
//	sdk-sender -endpoint http://127.0.0.1:4317 -traces 500 -logs 500 -points 500
//
// The items are the same in every run with the same -seed, but for the times of metric points.
// Standard output has one JSON object a line: an item when the Export that carried it returned
// nil ("span", "log", "point"), a "failed" line for every Export that returned an error, and a
// "summary" as the last line. A failed Export is repeated with the same items until it returns
// nil, so an item without a line was never acknowledged.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

type settings struct {
	endpoint string
	key      string
	gzip     bool
	json     bool
	seed     string
	traces   int
	logs     int
	points   int
	batch    int
	pause    time.Duration
}

// Longer than any test: an Export ends when it has succeeded, not when it took long.
const patience = time.Hour

func readFlags() settings {
	var s settings
	flag.StringVar(&s.endpoint, "endpoint", "", "URL of the relay")
	flag.StringVar(&s.key, "key", "", "ingest key, sent as a bearer token")
	flag.BoolVar(&s.gzip, "gzip", false, "compress bodies")
	flag.BoolVar(&s.json, "json", false, "send traces as JSON; the other signals have no such exporter")
	flag.StringVar(&s.seed, "seed", "0", "text that ids are made from")
	flag.IntVar(&s.traces, "traces", 0, "traces to send, three spans each")
	flag.IntVar(&s.logs, "logs", 0, "log records to send")
	flag.IntVar(&s.points, "points", 0, "rounds of metric points to send, three points each")
	flag.IntVar(&s.batch, "batch", 50, "most items in one Export")
	flag.DurationVar(&s.pause, "pause", 0, "wait between two items of a signal")
	flag.Parse()
	return s
}

func (s settings) headers() map[string]string {
	if s.key == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + s.key}
}

func (s settings) resource() *resource.Resource {
	return resource.NewSchemaless(
		attribute.String("service.name", "sdk-sender"),
		attribute.String("service.instance.id", s.seed),
		attribute.Int("worker", 7))
}

func main() {
	s := readFlags()
	out := newOutput(os.Stdout)
	// What the SDK reports here is a drop or a partial success: the test wants to see none.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(out.complaint))

	ctx := context.Background()
	var wait sync.WaitGroup
	for _, send := range []func(context.Context, settings, *output) error{
		sendTraces, sendLogs, sendPoints} {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if err := send(ctx, s, out); err != nil {
				out.complaint(err)
			}
		}()
	}
	wait.Wait()
	if out.summary() > 0 {
		fmt.Fprintln(os.Stderr, "sdk-sender: the SDK complained, see the summary")
		os.Exit(1)
	}
}
