// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// output writes the JSON lines; any goroutine may call it.
type output struct {
	lock       sync.Mutex
	out        *bufio.Writer
	exports    map[string]int
	failures   map[string]int
	items      map[string]int
	complaints []string
}

func newOutput(out io.Writer) *output {
	return &output{out: bufio.NewWriter(out), exports: map[string]int{},
		failures: map[string]int{}, items: map[string]int{}}
}

type fields = map[string]any

func (o *output) line(f fields) {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	o.out.Write(text)
	o.out.WriteByte('\n')
	o.out.Flush()
}

// sent prints the items of an Export that returned nil.
func (o *output) sent(signal string, items []fields) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.exports[signal]++
	o.items[signal] += len(items)
	for _, item := range items {
		item["is"] = signal
		o.line(item)
	}
}

func (o *output) failed(signal string, err error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.failures[signal]++
	o.line(fields{"is": "failed", "signal": signal, "error": err.Error()})
}

// complaint keeps what the SDK reports. At its shutdown the metric reader gives up a collection
// that has just begun and reports that; the points come with the last one.
func (o *output) complaint(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	o.lock.Lock()
	defer o.lock.Unlock()
	o.complaints = append(o.complaints, err.Error())
}

// summary prints the last line and returns the number of complaints.
func (o *output) summary() int {
	o.lock.Lock()
	defer o.lock.Unlock()
	complaints := o.complaints
	if complaints == nil {
		complaints = []string{}
	}
	o.line(fields{"is": "summary", "items": o.items, "exports": o.exports, "failures": o.failures,
		"complaints": complaints})
	return len(o.complaints)
}
