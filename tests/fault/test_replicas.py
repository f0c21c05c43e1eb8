# SPDX-License-Identifier: MIT
"""Two relays, two replicas of the daemon, one Postgres: everything that senders were told is taken is
stored, once, while relays and replicas are killed at random."""
import itertools
import random
import threading
import time

import pytest

from lib import tools
from lib.postgres import PgBouncer
from lib.sender import Load, paced
from lib.store import Comparison, PgStore
from lib.telemetry import Span, native_request
from peers import SdkSender, compare
from stored import stored_logs, stored_points

TRACES, LOGS, POINTS = 7500, 2500, 1250  # of each of two SDKs; three spans, three points each
TURNS, TURNS_A_BATCH = 15000, 10  # of agents with a native sender; three spans each
EVENTS = 2 * (3 * TRACES + LOGS + 3 * POINTS) + 3 * TURNS
SDK = {"traces": TRACES, "logs": LOGS, "points": POINTS, "batch": 100}
LONG = 900


class Killer:
    """Kills one of the processes at random, again and again, and starts it a moment later."""

    def __init__(self, processes, seed):
        self.processes, self.chance = processes, random.Random(seed)
        self.kills = {process.name: 0 for process in processes}
        self.failure = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(120)
        assert self.failure is None, self.failure

    def _work(self):
        try:
            while not self._stop.wait(self.chance.uniform(0.1, 1.5)):
                victim = self.chance.choice(self.processes)
                victim.kill9()
                self.kills[victim.name] += 1
                self._stop.wait(self.chance.uniform(0, 1))
                victim.start(60)
        except AssertionError as failure:
            self.failure = failure


def native_senders(relays, per_second):
    """Each batch has a key of its own; it is sent with that, to one relay and the other in turn, until
    one has taken it."""
    batches = (native_request(number, key=f"batch-{number}", turns=TURNS_A_BATCH)
               for number in itertools.count(0, TURNS_A_BATCH))
    wanted = itertools.islice(batches, TURNS // TURNS_A_BATCH)
    return Load([relay.port for relay in relays], paced(wanted, per_second), connections=8,
                retry=None, timeout=20)


def spans_of(sdk):
    """The SDK's spans as Comparison wants them."""
    return [Span(item["trace_id"], item["span_id"],
                 item["attributes"].get("gen_ai.usage.input_tokens", 0),
                 item["attributes"].get("gen_ai.usage.output_tokens", 0))
            for item in sdk.of("span")]


class SdkAsSent:
    """What an SDK was told is taken, in the form of one big request."""
    is_accepted = True

    def __init__(self, sdk):
        self.spans = spans_of(sdk)


@pytest.fixture(name="pooler")
def a_pooler(postgres):
    """PgBouncer in front of the database; where there is none, the database's own server."""
    if tools.find("pgbouncer") is None:
        print("NO PGBOUNCER: both replicas go to the server")
        yield postgres.server
        return
    with PgBouncer(postgres.server) as pooler:
        yield pooler


def test_100000_events_are_stored_once_while_relays_and_replicas_are_killed(site, postgres, pooler,
                                                                            sdk_sender):
    """One of the replicas goes through a pooler."""
    seed = time.time_ns()
    print(f"seed {seed}")
    daemons = [site.daemon(store=postgres.url_at(port))
               for port in (postgres.server.port, pooler.port)]
    relays = [site.relay(upstream=[first.url, second.url], lease="5s", workers=8)
              for first, second in (daemons, daemons[::-1])]
    began = time.monotonic()
    native = native_senders(relays, 40).start()
    with SdkSender(sdk_sender, relays[0], seed="one", **SDK) as one, \
            SdkSender(sdk_sender, relays[1], seed="two", gzip=True, **SDK) as two:
        with Killer(relays + daemons, seed) as killer:
            native.join(LONG)
            one.wait_end(LONG)
            two.wait_end(LONG)
        took = time.monotonic() - began
        for relay in relays:
            relay.wait_drained(120)
            assert relay.metric("mcpd_relay_dead_letter_total") == 0
        sdks = [SdkAsSent(one), SdkAsSent(two)]
        assert len(one.items) + len(two.items) + sum(
            len(sent.request.spans) for sent in native.accepted) == EVENTS
        comparison = Comparison([*native.sent, *sdks], PgStore(postgres)).check()
        compare(one.of("log") + two.of("log"), stored_logs(daemons[0]))
        compare(one.of("point") + two.of("point"), stored_points(daemons[1]))
        repeats = sum(sent.attempts - 1 for sent in native.sent)
        failed = len(one.failures) + len(two.failures)
    assert min(killer.kills.values()) > 0, killer.kills
    print(f"{EVENTS} events in {took:.0f} s, {comparison.stored} of them spans; killed "
          f"{killer.kills}; {repeats} native requests repeated, {failed} Exports failed; "
          "0 lost, 0 twice")
