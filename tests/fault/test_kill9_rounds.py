# SPDX-License-Identifier: MIT
"""Two hundred rounds of kill -9 under load, for the relay in one piece and for its three processes."""
from lib.rounds import rounds_of_kill9
from lib.store import Comparison, Store

ROUNDS = 200


def test_relay_in_one_piece(site):
    daemon = site.daemon()
    relay = site.relay(upstream=daemon.url)
    sent = rounds_of_kill9(relay, lambda chance, number: [relay] + [daemon] * (number % 10 == 9),
                           ROUNDS)
    relay.wait_drained(120)
    Comparison(sent, Store(daemon.data)).check()
    print(f"{ROUNDS} rounds, {sum(one.is_accepted for one in sent)} accepted, 0 lost, 0 twice")


def test_three_processes_with_a_random_one_killed(site):
    daemon = site.daemon()
    broker = site.broker()
    gateway = site.gateway(broker)
    courier = site.courier(broker, upstream=daemon.url)
    sent = rounds_of_kill9(gateway,
                           lambda chance, number: [chance.choice([broker, gateway, courier])],
                           ROUNDS)
    broker.wait_drained(120)
    Comparison(sent, Store(daemon.data)).check()
    print(f"{ROUNDS} rounds, {sum(one.is_accepted for one in sent)} accepted, 0 lost, 0 twice")
