# SPDX-License-Identifier: MIT
"""The cases of the bench. Each takes (folder, options) and returns its rows of the table."""
import pathlib
import resource
import signal
import statistics
import subprocess
import threading
import time

from lib import http
from lib.ports import free_port
from lib.process import BUILD, Site
from lib.sender import Load
from lib.telemetry import Request
from lib.wait import wait_until
from wrk import wrk

PROGRAMS = BUILD / "bench"


class Row:
    """A row: ours against the other side. higher_is_better tells what the bars mean; least and aim
    are None where nothing is asked."""

    def __init__(self, name, what, ours, other, least, aim, *, unit="", rounds=1, notes=(),
                 void="", higher_is_better=True, ratio=None):
        self.name, self.what, self.ours, self.other = name, what, ours, other
        self.least, self.aim, self.unit, self.rounds = least, aim, unit, rounds
        self.notes, self.void, self.higher = list(notes), void, higher_is_better
        self.ratio = ours / other if ratio is None else ratio
        if void:
            self.notes.append(f"VOID: {void}")

    @property
    def is_void(self):
        return bool(self.void)

    def reaches(self, bar):
        return self.ratio >= bar if self.higher else self.ratio <= bar

    def verdict(self):
        if self.void:
            return "void"
        if self.least is None:
            return ""
        return "aim" if self.reaches(self.aim) else "ok" if self.reaches(self.least) else "BELOW"

    def cells(self):
        def figure(value):
            return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

        def bar(value):
            return "–" if value is None else f"{'≥' if self.higher else '≤'} {value}"
        return [f"{self.name} {self.what}", str(self.rounds), f"{figure(self.ours)} {self.unit}",
                f"{figure(self.other)} {self.unit}", f"{self.ratio:.2f}", bar(self.least),
                bar(self.aim), self.verdict()]


class Program:
    """One of the bench's own servers, for the length of a with block."""

    def __init__(self, name, *arguments):
        self.port = free_port()
        self.child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(PROGRAMS / name), str(self.port), *arguments])

    def _answers(self):
        try:
            return http.post(self.port, "/", b"x", timeout=2).status == 202
        except OSError:
            return False

    def __enter__(self):
        wait_until(self._answers, 20, "the bench's server answers")
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def sync_disk():
    """What one side left in the page cache must not be written out on the other's time."""
    subprocess.run(["sync"], check=True)


def closed_relay(site, **options):
    """A relay whose only upstream is a port where nobody listens."""
    return site.relay(upstream=[f"http://127.0.0.1:{free_port()}"], spool_max_bytes="16GiB",
                      **options)


class Turns:
    """B1 and B3 measure the same three servers in turns; the figures are gathered here."""

    def __init__(self, folder, rounds, seconds, connections):
        self.folder, self.seconds, self.connections = pathlib.Path(folder), seconds, connections
        self.relay, self.rival, self.bare, self.void = [], [], [], []
        for _ in range(rounds):
            self._bare()
            self._rival()
            self._relay()

    def _load(self, port):
        wrk(port, 1, self.connections)  # threads started, buffers grown
        return wrk(port, self.seconds, self.connections)

    def _check(self, result, side):
        if result.refused or result.broken:
            self.void.append(f"{side}: {result.refused} not 2xx, {result.broken} broken")

    def _bare(self):
        with Program("bare") as bare:
            self.bare.append(self._load(bare.port))
        self._check(self.bare[-1], "bare")

    def _rival(self):
        file = self.folder / "rival.dat"
        sync_disk()
        with Program("rival", str(file)) as rival:
            self.rival.append(self._load(rival.port))
        self._check(self.rival[-1], "rival")
        file.unlink()

    def _relay(self):
        sync_disk()
        with Site(self.folder / "relay") as site:
            relay = closed_relay(site)
            warm = wrk(relay.port, 1, self.connections)
            before = self._settled_entries(relay)
            self.relay.append(wrk(relay.port, self.seconds, self.connections))
            grown = self._settled_entries(relay) - before
            result = self.relay[-1]
            self._check(warm, "relay")
            self._check(result, "relay")
            # wrk ends with requests under way: they are stored, but not counted by it.
            if not result.requests <= grown <= result.requests + self.connections:
                self.void.append(f"relay: {result.requests} answered 2xx, spool grew by {grown}")
        subprocess.run(["rm", "-rf", str(self.folder / "relay")], check=True)

    @staticmethod
    def _settled_entries(relay):
        """spool_entries once it no longer changes: what was under way has come to rest."""
        seen = []

        def is_settled():
            seen.append(relay.metric("mcpd_relay_spool_entries"))
            # The gauge follows once a second.
            return len(seen) > 5 and len(set(seen[-6:])) == 1
        wait_until(is_settled, 60, lambda: f"spool_entries settled, was {seen[-6:]}", every=0.5)
        return seen[-1]


def median(results, field):
    return statistics.median(getattr(result, field) for result in results)


def b1(folder, options):
    turns = Turns(folder, options.rounds, options.seconds, connections=64)
    ours, rival, bare = (median(r, "per_second") for r in (turns.relay, turns.rival, turns.bare))
    void = "; ".join(turns.void)
    if rival < 0.45 * bare:
        void += f" the rival is at {rival / bare:.2f} of the bare handler"
    spread = ", ".join(f"{a.per_second / b.per_second:.2f}"
                       for a, b in zip(turns.relay, turns.rival))
    notes = [f"bare handler, nothing stored: {bare:,.0f}/s; the rival is at {rival / bare:.2f} "
             f"of it, the relay at {ours / bare:.2f}",
             f"ratio round by round: {spread}"]
    return [Row("B1", "accepted, 1 KiB, 64 connections", ours, rival, 0.70, 0.90, unit="/s",
                rounds=options.rounds, notes=notes, void=void)]


def b3(folder, options):
    turns = Turns(folder, options.rounds, max(2, options.seconds // 2), connections=1)
    ours, rival, bare = (median(r, "p50_ms") for r in (turns.relay, turns.rival, turns.bare))
    return [Row("B3", "one connection, p50", ours, rival, 1.45, 1.2, unit="ms",
                rounds=options.rounds, higher_is_better=False, void="; ".join(turns.void),
                notes=[f"bare handler, nothing stored: {bare:.3f} ms"])]


def b9(folder, options):
    """What an idle relay costs after it has worked."""
    with Program("bare") as upstream, Site(folder / "idle") as site:
        relay = site.relay(upstream=f"http://127.0.0.1:{upstream.port}")
        body = b"x" * 1024
        requests = (Request("/v1/ingest", body, "application/json") for _ in range(10000))
        load = Load(relay.port, requests, connections=64).run()
        void = "" if len(load.accepted) == 10000 else f"only {len(load.accepted)} accepted"
        relay.wait_drained()
        time.sleep(6)  # keep-alive connections end
        began, used = time.monotonic(), relay.cpu_seconds()
        time.sleep(15)
        percent = 100 * (relay.cpu_seconds() - used) / (time.monotonic() - began)
        mib = relay.rss_bytes() / 2**20
    return [Row("B9", "idle after 10,000 requests, memory", mib, 40, 1.0, 0.8, unit="MiB",
                void=void, higher_is_better=False),
            Row("B9", "the same, CPU of one core", percent, 0.5, 1.0, 1.0, unit="%", void=void,
                higher_is_better=False)]


IDLE_CONNECTIONS = 5000


def b10(folder, options):
    """Idle keep-alive connections cost the busy ones little."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
    busy, alone, void = [], [], []
    for _ in range(options.rounds):
        for idle, results in ((0, alone), (IDLE_CONNECTIONS, busy)):
            sync_disk()
            with Site(folder / "many") as site:
                relay = closed_relay(site, threads=6000, keep_alive_timeout="60s")
                connections = []
                for _ in range(idle):  # one after another: a connection that asks nothing is ended
                    connections.append(http.Connection(relay.port))
                    if connections[-1].request("POST", "/v1/ingest", b"{}").status != 202:
                        void.append("an idle connection's first request was refused")
                wrk(relay.port, 1)
                results.append(wrk(relay.port, options.seconds))
                still = sum(1 for c in connections
                            if c.request("POST", "/v1/ingest", b"{}").status == 202)
                if still != idle:
                    void.append(f"{idle - still} idle connections were lost")
                for connection in connections:
                    connection.close()
            subprocess.run(["rm", "-rf", str(folder / "many")], check=True)
    void += [f"{r.refused} refused, {r.broken} broken" for r in busy + alone
             if r.refused or r.broken]
    return [Row("B10", f"64 busy beside {IDLE_CONNECTIONS:,} idle, against alone",
                median(busy, "per_second"), median(alone, "per_second"), 0.8, 0.95, unit="/s",
                rounds=options.rounds, void="; ".join(void))]


ENOUGH = 2000  # deliveries that make a rate


def delivery_rate(relay, seconds):
    """Deliveries a second as long as something waits; None when hardly anything did."""
    def delivered():
        return relay.metric("mcpd_relay_delivered_total")
    began, first = time.monotonic(), delivered()
    while time.monotonic() - began < seconds and relay.metric("mcpd_relay_spool_entries") > 100:
        time.sleep(0.1)
    count = delivered() - first
    return count / (time.monotonic() - began) if count >= ENOUGH else None


def pile_up(relay, upstream, seconds):
    """A backlog: the upstream is frozen, so that a few requests wait for its answer, none fails."""
    upstream.child.send_signal(signal.SIGSTOP)
    wrk(relay.port, seconds)
    upstream.child.send_signal(signal.SIGCONT)


def b12(folder, options):
    """Accepting at full rate must not starve delivering."""
    loaded, unloaded = [], []
    with Program("bare") as upstream, Site(folder / "both") as site:
        relay = site.relay(upstream=f"http://127.0.0.1:{upstream.port}", workers=16,
                           spool_max_bytes="16GiB")
        for _ in range(options.rounds):
            pile_up(relay, upstream, options.seconds)
            load = threading.Thread(target=wrk, args=(relay.port, options.seconds))
            load.start()
            loaded.append(delivery_rate(relay, options.seconds - 1))
            load.join()
            unloaded.append(delivery_rate(relay, options.seconds / 2))
    void = "no backlog to measure with" if None in loaded + unloaded else ""
    return [Row("B12", "delivering while accepting at full rate, against the drain alone",
                statistics.median(r or 0 for r in loaded),
                statistics.median(r or 1 for r in unloaded), 0.30, 0.60, unit="/s",
                rounds=options.rounds, void=void)]


CASES = {"B1": b1, "B3": b3, "B9": b9, "B10": b10, "B12": b12}
