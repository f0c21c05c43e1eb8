# SPDX-License-Identifier: MIT
"""The other ends of the tests: the SDK's program as a running sender, and an upstream that remembers
what it answered."""
import json
import subprocess
import threading
from collections import Counter

from lib import http
from lib.process import clean_environment
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

SMALL_SPOOL = {"spool_max_bytes": "4MiB", "max_body_bytes": "256KiB"}
FILLER = b"x" * 60_000


def fill(relay):
    """Posts until the spool refuses; returns the last answer."""
    for _ in range(500):
        reply = http.post(relay.port, "/v1/fill", FILLER, "text/plain")
        if reply.status != 202:
            return reply
    raise AssertionError("the spool takes everything")


def canonical(item):
    """One text for one item: 2.0 and 2 are the same number, keys are in order."""
    def plain(value):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return value
    return json.dumps(plain(item), sort_keys=True)


class SdkSender:
    """sdk-sender at work. items: what was acknowledged to the SDK; failures: Exports that were not
    and were repeated."""

    def __init__(self, program, relay, **options):
        line = [str(program), "-endpoint", relay.url]
        for name, value in options.items():
            line.append(f"-{name}={str(value).lower() if isinstance(value, bool) else value}")
        self.items, self.failures, self.summary, self.stderr = [], [], None, ""
        self.child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *line], env=clean_environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()

    def _read(self):
        for line in self.child.stdout:
            if not line.startswith("{"):
                self.stderr += line
                continue
            said = json.loads(line)
            kind = said["is"]
            if kind == "failed":
                self.failures.append(said)
            elif kind == "summary":
                self.summary = said
            else:
                self.items.append(said)

    @property
    def is_running(self):
        return self.child.poll() is None

    def wait_items(self, count, seconds=60.0):
        wait_until(lambda: len(self.items) >= count or self.child.poll() is not None, seconds,
                   lambda: f"{count} items acknowledged, there are {len(self.items)}")

    def wait_failure(self, seconds=30.0):
        """Until one more Export fails than had when this was called."""
        before = len(self.failures)
        wait_until(lambda: len(self.failures) > before, seconds, "the SDK sees an Export fail")

    def wait_end(self, seconds=120.0):
        """Until all is acknowledged; the SDK must have dropped nothing and seen no warning."""
        status = self.child.wait(seconds)
        self._reader.join(10)
        assert status == 0 and self.summary["complaints"] == [], (status, self.summary, self.stderr)
        assert sum(self.summary["items"].values()) == len(self.items)
        return self

    def of(self, kind):
        return [item for item in self.items if item["is"] == kind]


class Recorder(Upstream):
    """An upstream that also knows which requests it answered with a 2xx."""

    def __init__(self):
        self.accepted = []
        super().__init__()

    def action_for(self, request):
        action = super().action_for(request)
        if request.method == "POST" and isinstance(action, Reply) and 200 <= action.status < 300:
            self.accepted.append(request)
        return action

    def kept(self):
        """Accepted requests as a store that honours Idempotency-Key keeps them: once each key."""
        first = {}
        for request in list(self.accepted):
            assert request.key, f"no key: {request}"
            first.setdefault(request.key, request)
        return list(first.values())


def compare(sent, got):
    """Every item that was acknowledged is there once, and nothing else is."""
    sent, got = Counter(map(canonical, sent)), Counter(map(canonical, got))
    lost, more = sent - got, got - sent
    twice = [item for item in more if item in sent]
    foreign = [item for item in more if item not in sent]
    assert not (lost or more), (
        f"{sum(lost.values())} lost, {len(twice)} twice, {len(foreign)} not as sent, of "
        f"{sum(sent.values())}; lost: {list(lost)[:2]}; foreign: {foreign[:2]}")
    assert max(sent.values()) == 1, "the sender's own items are not distinct"
