#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""B11: B1's load on the OpenTelemetry Collector and on the relay, in turns in one run: the Collector
with its queue in file_storage with fsync (an answer means the same as ours), and with its queue in
memory (an answer means nothing after a crash).

Every side takes the same OTLP request of 1 KiB over 64 keep-alive connections and hands it on to a
port where nobody listens. The Collector's queue has room for all of it. Nothing faster is known for
it: batching in its exporter comes after the queue, and compression is of no use to a closed port.

    bench_collector.py [--rounds N] [--seconds N] [--no-doc]
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench"), str(HERE)]

import gobuild  # noqa: E402
from bench import circumstances, notes, table, write_section  # noqa: E402
from cases import Row, Turns, closed_relay, median, sync_disk  # noqa: E402
from collector import Collector  # noqa: E402
from lib.ports import free_port  # noqa: E402
from lib.process import BUILD, Site  # noqa: E402
from lib.telemetry import RESOURCE, new_span_id, new_trace_id, pb_span, pb_traces  # noqa: E402
from wrk import wrk  # noqa: E402

CONNECTIONS = 64
BODY_BYTES = 1024
SECTION = "B11: the relay against the OpenTelemetry Collector"
# As they come with the Collector, but for the five minutes after which it would drop the data.
RETRY = {"enabled": True, "max_elapsed_time": "0s"}
SIDES = {"fsync": {"storage": {"fsync": True}}, "memory": {}}


def body():
    """One OTLP request with one span, BODY_BYTES long."""
    def encoded(padding):
        span = pb_span(new_trace_id(), new_span_id(), None, "chat m-large", 3, 1, 2,
                       {"gen_ai.operation.name": "chat", "note": "x" * padding})
        return pb_traces([span], RESOURCE)
    # Lengths are varints, so that a longer text may need longer lengths too.
    padding = BODY_BYTES - len(encoded(0))
    while len(encoded(padding)) > BODY_BYTES:
        padding -= 1
    data = encoded(padding)
    assert BODY_BYTES - 2 <= len(data) <= BODY_BYTES, len(data)
    return data


class Sides:
    """The three sides in turns; figures and what spoils them are gathered here."""

    def __init__(self, folder, options):
        self.folder, self.seconds = folder, options.seconds
        self.body_file = folder / "body.bin"
        self.body_file.write_bytes(body())
        self.relay, self.void = [], []
        self.collector = {side: [] for side in SIDES}
        for number in range(options.rounds):
            for side in SIDES:
                self._collector(side)
            self._relay()
            print(f"  round {number + 1}: relay {self.relay[-1].per_second:,.0f}/s, collector "
                  + ", ".join(f"{side} {results[-1].per_second:,.0f}/s"
                              for side, results in self.collector.items()), flush=True)

    def _load(self, port, seconds):
        return wrk(port, seconds, CONNECTIONS, path="/v1/traces", body_file=self.body_file,
                   body_type="application/x-protobuf")

    def _measure(self, side, port, results):
        self._load(port, 1)  # threads started, buffers grown
        result = self._load(port, self.seconds)
        results.append(result)
        if result.refused or result.broken:
            self.void.append(f"{side}: {result.refused} not 2xx, {result.broken} broken")

    def _collector(self, side):
        sync_disk()
        with Site(self.folder / side) as site:
            process = Collector(gobuild.program("collector"), site.folder,
                                f"http://127.0.0.1:{free_port()}", queue={"queue_size": 100000000},
                                exporter={"retry_on_failure": RETRY}, **SIDES[side])
            site.processes.append(process)
            process.start()
            self._measure(f"collector with {side}", process.port, self.collector[side])
        shutil.rmtree(self.folder / side)

    def _relay(self):
        sync_disk()
        with Site(self.folder / "relay") as site:
            relay = closed_relay(site)
            self._load(relay.port, 1)
            before = Turns._settled_entries(relay)
            result = self._load(relay.port, self.seconds)
            grown = Turns._settled_entries(relay) - before
            self.relay.append(result)
            if result.refused or result.broken:
                self.void.append(f"relay: {result.refused} not 2xx, {result.broken} broken")
            # wrk ends with requests under way: they are stored, but not counted by it.
            if not result.requests <= grown <= result.requests + CONNECTIONS:
                self.void.append(f"relay: {result.requests} answered 2xx, spool grew by {grown}")
        shutil.rmtree(self.folder / "relay")


def rows(sides, rounds):
    ours, void = median(sides.relay, "per_second"), "; ".join(sides.void)
    fsync = median(sides.collector["fsync"], "per_second")
    memory = median(sides.collector["memory"], "per_second")
    p50 = {"relay": median(sides.relay, "p50_ms"),
           **{f"collector, {side}": median(results, "p50_ms")
              for side, results in sides.collector.items()}}
    note = "p50: " + ", ".join(f"{side} {ms:.2f} ms" for side, ms in p50.items())
    spread = "; ".join(
        f"{side} " + ", ".join(f"{a.per_second / b.per_second:.1f}"
                               for a, b in zip(sides.relay, results))
        for side, results in sides.collector.items())
    return [Row("B11", "accepted, 1 KiB OTLP, 64 connections, against the Collector with "
                "file_storage and fsync", ours, fsync, 20, 30, unit="/s", rounds=rounds, void=void,
                notes=[note, f"ratio round by round: {spread}"]),
            Row("B11", "against the Collector without storage", ours, memory, 1.5, 2, unit="/s",
                rounds=rounds, void=void)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--no-doc", action="store_true", help="leave docs/bench.md as it is")
    options = parser.parse_args()
    try:
        gobuild.program("collector")
    except gobuild.NotHere as reason:
        print(f"!!! B11 NOT MEASURED: {reason}", flush=True)
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))
    try:
        context = circumstances(folder)
        print(context, flush=True)
        measured = rows(Sides(folder, options), options.rounds)
        print(table(measured))
        print(notes(measured))
        if not options.no_doc:
            write_section(SECTION, measured, context)
        # A Collector that stumbles spoils the figures, not the product.
        return 1 if any("relay:" in row.void for row in measured) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
