# SPDX-License-Identifier: MIT
"""Runs wrk, the load generator, and reads what it says."""
import os
import pathlib
import re
import subprocess

SCRIPT = pathlib.Path(__file__).with_name("post.lua")
UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class WrkResult:
    def __init__(self, text):
        self.per_second = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
        self.requests = int(re.search(r"(\d+) requests in", text)[1])
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        self.refused = int(bad[1]) if bad else 0
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)",
                           text)
        self.broken = sum(map(int, errors.groups())) if errors else 0
        p50 = re.search(r"50%\s+([\d.]+)(us|ms|s)\b", text)
        self.p50_ms = float(p50[1]) * UNIT_MS[p50[2]]


def wrk(port, seconds, connections=64, body_bytes=1024, path="/v1/ingest", body_file=None,
        body_type="application/json"):
    """POSTs over keep-alive connections for some seconds: a file, or body_bytes of nothing."""
    threads = min(2, connections)
    done = subprocess.run(
        ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout",
         "10s", "-s", str(SCRIPT), f"http://127.0.0.1:{port}{path}"],
        env={**os.environ, "BODY_BYTES": str(body_bytes), "BODY_TYPE": body_type,
             **({"BODY_FILE": str(body_file)} if body_file else {})},
        capture_output=True, text=True, check=True)
    return WrkResult(done.stdout)
