# SPDX-License-Identifier: MIT
"""A relay is told to stop while two kinds of senders send: some look at /readyz, as behind a load
balancer, and send nothing new once it says 503; others never look."""
import random
import threading
import time

from lib.sender import Load, paced
from lib.store import Comparison, Store
from lib.telemetry import endless

DRAIN_DELAY = "1500ms"  # several looks long, also on a busy machine
LOOK_EVERY_S = 0.05


def _look(relay, load, is_over):
    while not is_over.wait(LOOK_EVERY_S):
        answer = relay.readyz()
        if answer is None or answer[0] == 503:
            load.stop_now()
            return


def _one_stop(relay):
    """Returns what the senders that look, and those that do not, have sent."""
    loads = [Load(relay.port, paced(endless(), 300), connections=8, timeout=15).start()
             for _ in range(2)]
    is_over = threading.Event()
    looking = threading.Thread(target=_look, args=(relay, loads[0], is_over), daemon=True)
    looking.start()
    time.sleep(random.uniform(0.2, 0.7))  # somewhere in the middle
    assert relay.stop() == 0, relay.log()
    is_over.set()
    looking.join(10)
    return [load.stop().sent for load in loads]


def stop_again_and_again(site, rounds):
    """Asserts for each round that every request of the senders that look was answered, and at the
    end that nothing that was answered 2xx is lost and nothing is stored twice."""
    daemon = site.daemon()
    relay = site.relay(upstream=daemon.url, drain_delay=DRAIN_DELAY, start=False)
    sent, other = [], []
    for number in range(rounds):
        relay.start()
        those_that_look, the_others = _one_stop(relay)
        unanswered = [one for one in those_that_look if one.status not in (200, 202, 503)]
        assert not unanswered, f"round {number}: {unanswered[:3]}\n{relay.log()[-4000:]}"
        sent += those_that_look
        other += the_others
    relay.start()
    relay.wait_drained(120)
    taken = sum(one.is_accepted for one in sent)
    assert taken > 10 * rounds and taken >= 0.9 * len(sent)
    Comparison(sent + other, Store(daemon.data)).check()
    print(f"{rounds} stops: {len(sent)} requests of senders that look, {taken} taken, none without an "
          f"answer; {len(other)} of others, {sum(one.is_accepted for one in other)} taken; none lost")
