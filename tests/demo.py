#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""make demo: two daemons and a relay on this machine, real telemetry through them, and two
disasters under load: the first daemon goes away, the relay is killed. Ends by itself with status 0
when everything that was answered 2xx is stored once.

make run (--stay) starts the same three and leaves them running until Ctrl-C.
"""
import argparse
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib.ports import free_port, is_free  # noqa: E402
from lib.process import Site  # noqa: E402
from lib.sender import Load, paced  # noqa: E402
from lib.store import Comparison, Store, all_spans  # noqa: E402
from lib.telemetry import endless  # noqa: E402
from lib.wait import wait_until  # noqa: E402

CONNECTIONS = 16
PER_SECOND = 500
LIMIT_S = 110

PICTURE = """
   16 agents ──▶ relay ──▶ daemon A, the first choice
                      └──▶ daemon B, takes over
"""

STORES = """            (A finishes what it took before it stops. That matters here: A and B have an
            SQLite file each, so B would not recognise a request that A stored already.)"""


class Demo:
    def __init__(self, site):
        self.site, self.began = site, time.monotonic()
        self.failovers = self.dead = 0

    def say(self, text):
        print(f"  {time.monotonic() - self.began:5.1f} s   {text}", flush=True)

    def start(self, relay_port=None):
        self.a = self.site.daemon(name="A")
        self.b = self.site.daemon(name="B")
        extra = {"listen": f"127.0.0.1:{relay_port}"} if relay_port else {}
        self.relay = self.site.relay(name="relay", upstream=[self.a.url, self.b.url], start=False,
                                     **extra)
        self.relay.port = relay_port or self.relay.port
        self.relay.start()

    def delivered(self, order):
        return sum(v for k, v in self.relay.metrics().items()
                   if k.startswith("mcpd_relay_delivered_total{") and f'order="{order}"' in k)

    def keep_counts(self):
        """A killed relay's counters go with it."""
        self.failovers += int(self.relay.metric("mcpd_relay_failovers_total"))
        self.dead += int(self.relay.metric("mcpd_relay_dead_letter_total"))

    def more(self, load, seconds):
        """Lets the load go on for a while; returns how many were answered 2xx so far."""
        until = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= until, seconds + 5)
        return len(load.accepted)

    def tell(self):
        self.start()
        self.say(f"A, B and the relay run; {CONNECTIONS} agents send {PER_SECOND} requests a second")
        load = Load(self.relay.port, paced(endless(), PER_SECOND), CONNECTIONS, retry=None).start()
        try:
            self.disasters(load)
        finally:
            load.stop_now()
        return self.sums(load)

    def disasters(self, load):
        count = self.more(load, 4)
        wait_until(lambda: self.delivered(1) > 0, 10, "a delivery to A")
        self.say(f"{count:,} requests answered 2xx; {self.delivered(1):,.0f} delivered to A")

        self.a.stop()
        self.say("A is stopped, the agents go on sending")
        print(STORES)
        count = self.more(load, 3)
        wait_until(lambda: self.delivered(2) > 0, 20, "a delivery to B")
        self.say(f"{count:,} answered 2xx; {self.delivered(2):,.0f} delivered to B instead")

        self.keep_counts()
        self.relay.kill9()
        self.say("the relay is killed with -9, the agents try again and again")
        self.more(load, 1)
        self.relay.start()
        waiting = int(re.findall(r"spool\.open .* waiting=(\d+)", self.relay.log())[-1])
        self.say(f"the relay is started again; {waiting:,} undelivered requests were in its spool")
        count = self.more(load, 3)
        self.say(f"{count:,} answered 2xx; B takes everything")

        self.a.start()
        before = self.delivered(1)
        self.say("A is started again")
        wait_until(lambda: self.delivered(1) >= before + 500, 60, "traffic returns to A", every=0.1)
        self.say(f"traffic has returned to A by itself: {self.delivered(1):,.0f} delivered to it")

    def sums(self, load):
        load.stop()
        self.relay.wait_drained(60)
        self.keep_counts()
        self.say("the agents stop; the relay's spool is empty")
        stores = [Store(self.a.data), Store(self.b.data)]
        result = Comparison(load.sent, *stores)
        held = set().union(*(store.spans() for store in stores))
        accepted = load.accepted
        stored = sum(1 for sent in accepted if held.issuperset(all_spans([sent])))
        twice = len(result.twice) + len(result.in_both)
        print(f"\n  sent {len(load.sent)} · answered 2xx {len(accepted)} · stored {stored} "
              f"({result.stored} spans)\n"
              f"  lost {len(accepted) - stored} · stored twice {twice} · "
              f"failovers {self.failovers} · dead {self.dead}\n")
        return stored == len(accepted) > 0 and twice == 0 and not result.foreign \
            and self.dead == 0

    def stay(self):
        self.start(4317 if is_free(4317) else free_port())
        print(f"""
  relay       {self.relay.url}        {self.relay.url}/metrics
  daemon A    {self.a.url}       {self.a.url}/v1/traces
  daemon B    {self.b.url}       {self.b.url}/v1/traces

  Send a span to the relay, then read it at A:

    curl -s {self.relay.url}/v1/ingest -H 'content-type: application/json' -d \\
      '{{"events":[{{"type":"span","trace_id":"'$(tr -d - </proc/sys/kernel/random/uuid)'","span_id":"'$(tr -d - </proc/sys/kernel/random/uuid | cut -c-16)'",
        "name":"hello","kind":"internal","start_ns":'$(date +%s%N)',"end_ns":'$(date +%s%N)'}}]}}'
    curl -s {self.a.url}/v1/traces

  Data and logs are in {self.site.folder} until you press Ctrl-C.
""", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass
        print("\n  stopping")
        for process in (self.relay, self.a, self.b):
            process.stop()


def interrupt(*_):
    raise KeyboardInterrupt


def too_late(*_):
    raise AssertionError(f"the demo did not end in {LIMIT_S} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stay", action="store_true", help="keep running until Ctrl-C")
    stay = parser.parse_args().stay
    for stop in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a script in the background ignores it
        signal.signal(stop, interrupt)
    signal.signal(signal.SIGALRM, too_late)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mcpd-demo-"))
    is_good = False
    with Site(folder) as site:
        demo = Demo(site)
        try:
            if stay:
                demo.stay()
                is_good = True
            else:
                print(PICTURE)
                signal.alarm(LIMIT_S)
                is_good = demo.tell()
                for process in (demo.relay, demo.a, demo.b):
                    is_good = process.stop() == 0 and is_good
                signal.alarm(0)
        except KeyboardInterrupt:
            print("\n  interrupted")
        except AssertionError as error:
            print(f"\n  failed: {error}")
    if is_good:
        shutil.rmtree(folder, ignore_errors=True)
        return 0
    print(f"  logs are in {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
