# SPDX-License-Identifier: MIT
"""Twenty replicas contend for one lease while its holders are killed, frozen and cut off, again and
again: what the leaders write is never written past a fence, and another leads within three passes."""
import contextlib
import os
import random
import re
import statistics
import time

import pytest

from lib import postgres as pg
from lib.lease import Replicas
from lib.link import Link
from lib.wait import wait_until

SECONDS = float(os.environ.get("MCPD_LEASE_SECONDS", "300"))
ROUNDS = int(os.environ.get("MCPD_LEASE_ROUNDS", "10"))  # of each kind, at least
COUNT = 20


class Crowd:
    """Replicas, each with a way of its own to the database."""

    def __init__(self, site, database, pass_s, stack):
        names = [f"r{number:02}" for number in range(COUNT)]
        self.links = {name: stack.enter_context(Link(database.server.port)) for name in names}
        self.replicas = Replicas(site, database, pass_s, names, slow_s=0.05, urls={
            name: database.url_at(link.port) for name, link in self.links.items()})
        self.lease = self.replicas.lease
        self.later = []  # (when, what brings a victim back)
        self.frozen = set()  # fences whose holder could say nothing when it lost them

    def kill(self, daemon):
        daemon.kill9()
        return daemon.spawn

    def freeze(self, daemon):
        self.frozen.add(self.lease.fence())
        daemon.pause()
        return daemon.resume

    def cut_off(self, daemon):
        link = self.links[daemon.name]
        random.choice((link.cut, link.freeze))()
        return link.mend

    def settled_leader(self):
        """(daemon, fence) of one that has written."""
        while True:
            daemon, fence = self.replicas.leader()
            self.lease.wait_writes(fence)
            if self.lease.leader() == (daemon.name, fence):
                return daemon, fence

    def strike(self, how, is_amid):
        """One fault, at a random moment or amid a write. How many passes it took until another led.
        """
        pass_s = self.replicas.pass_s
        daemon, fence = self.settled_leader()
        time.sleep(random.uniform(0, 2 * pass_s))  # the random moment, not a synchronisation
        if is_amid:
            wait_until(self.lease.is_writing, 60, "a write", every=0.002)
        if self.lease.leader() != (daemon.name, fence):
            daemon, fence = self.settled_leader()
        bring_back = how(daemon)
        _, _, passes = self.replicas.taken_over(fence, time.monotonic())
        # Some come back at once, some when others have led for long.
        self.later.append((time.monotonic() + random.uniform(0, 3 * pass_s), bring_back))
        self.bring_back(time.monotonic())
        return passes

    def bring_back(self, until):
        for due in [one for one in self.later if one[0] <= until]:
            self.later.remove(due)
            due[1]()

    def check(self):
        """(writes, leaderships); everybody is back and nobody stays the leader of a past fence."""
        self.bring_back(float("inf"))
        daemons = self.replicas.daemons.values()
        for daemon in daemons:
            daemon.wait_ready(60)
        wait_until(lambda: sum(one.metric("mcpd_lease_held") for one in daemons) == 1,
                   60, "one leader")
        self.check_beliefs()
        return self.lease.check()

    def check_beliefs(self):
        """Whoever could speak when it lost a fence had lost it before the next one was won."""
        won, lost = {}, {}
        for daemon in self.replicas.daemons.values():
            for at, what, fence in re.findall(r"^(\S+) \S+ daemon lease\.(won|lost) - fence=(\d+)",
                                              daemon.log(), re.M):
                (won if what == "won" else lost)[int(fence)] = at
        for fence, at in lost.items():
            later = [one for one in won if one > fence]
            if later and fence not in self.frozen:
                assert at <= won[min(later)], f"fence {fence} was believed in until {at}, {won}"


@pytest.fixture
def database():
    if not pg.is_available():
        pytest.skip("THERE IS NO POSTGRES SERVER: `make setup` fetches one")
    with pg.PostgresServer(max_connections="400") as server:
        yield server.new_database()


def contend(site, database, pass_s, seconds, rounds):
    with contextlib.ExitStack() as stack:
        crowd = Crowd(site, database, pass_s, stack)
        kinds = {"killed": crowd.kill, "frozen": crowd.freeze, "cut off": crowd.cut_off}
        took = {kind: [] for kind in kinds}
        begun = time.monotonic()
        while time.monotonic() - begun < seconds or min(map(len, took.values())) < rounds:
            fewest = min(map(len, took.values()))
            kind = random.choice([one for one in kinds if len(took[one]) == fewest])
            took[kind].append(crowd.strike(kinds[kind], is_amid=len(took[kind]) % 2 == 0))
        lasted = time.monotonic() - begun
        writes, leaderships = crowd.check()
    lines = [f"{COUNT} replicas, passes of {pass_s:g} s, {lasted:.0f} s: {leaderships} leaderships, "
             f"{writes} writes, none past its fence; half of the strikes amid a write"]
    for kind, passes in took.items():
        lines.append(f"  {kind} {len(passes)} times: another led after {min(passes):.2f} to "
                     f"{max(passes):.2f} passes, median {statistics.median(passes):.2f}")
    return "\n".join(lines)


def test_many_replicas_contend_for_minutes(site, database, capsys):
    figures = contend(site, database, 2.0, SECONDS, ROUNDS)
    with capsys.disabled():
        print("\n" + figures)


def test_each_kind_of_failure_at_the_default_interval(site, database, capsys):
    figures = contend(site, database, 10.0, 0, 1)
    with capsys.disabled():
        print("\n" + figures)
