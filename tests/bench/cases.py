# SPDX-License-Identifier: MIT
"""The cases of the bench. Each takes (folder, options) and returns its rows of the table."""
import pathlib
import statistics
import subprocess

from lib import http
from lib.ports import free_port
from lib.process import BUILD, Site
from lib.wait import wait_until
from wrk import wrk

PROGRAMS = BUILD / "bench"


class Row:
    """A row: ours against the other side. higher_is_better tells what the bars mean."""

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
        return "aim" if self.reaches(self.aim) else "ok" if self.reaches(self.least) else "BELOW"

    def cells(self):
        def figure(value):
            return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        sign = "≥" if self.higher else "≤"
        return [f"{self.name} {self.what}", str(self.rounds), f"{figure(self.ours)} {self.unit}",
                f"{figure(self.other)} {self.unit}", f"{self.ratio:.2f}", f"{sign} {self.least}",
                f"{sign} {self.aim}", self.verdict()]


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


CASES = {"B1": b1, "B3": b3}
