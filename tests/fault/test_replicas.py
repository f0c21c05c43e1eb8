# SPDX-License-Identifier: MIT
"""Two relays, two replicas of the daemon, one Postgres: everything that senders were told is taken
is stored, once, while relays and replicas are killed at random."""
import itertools
import random
import time
from collections import Counter

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


def kill_at_random(processes, seed, is_busy):
    """Kills one of the processes and starts it a moment later, again and again while is_busy().
    Returns how often each was killed."""
    chance, kills = random.Random(seed), Counter()
    end = time.monotonic() + LONG
    while is_busy():
        assert time.monotonic() < end, f"not done in {LONG} s"
        time.sleep(chance.uniform(0.1, 1.5))  # the random moment, not a synchronisation
        victim = chance.choice(processes)
        victim.kill9()
        kills[victim.name] += 1
        time.sleep(chance.uniform(0, 1))
        victim.start(60)
    return kills


def native_senders(relays, per_second):
    """Each batch has a key of its own; it is sent with that, to one relay and the other in turn,
    until one has taken it."""
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
    native = native_senders(relays, 25).start()
    with SdkSender(sdk_sender, relays[0], seed="one", **SDK) as one, \
            SdkSender(sdk_sender, relays[1], seed="two", gzip=True, **SDK) as two:
        senders = (native, one, two)
        kills = kill_at_random(relays + daemons, seed,
                               lambda: any(sender.is_running for sender in senders))
        took = time.monotonic() - began
        native.join()
        one.wait_end()
        two.wait_end()
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
    assert len(kills) == 4, kills
    print(f"{EVENTS} events in {took:.0f} s, {comparison.stored} of them spans; killed "
          f"{dict(kills)}; {repeats} native requests repeated, {failed} Exports failed; "
          "0 lost, 0 twice")
