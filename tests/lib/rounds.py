# SPDX-License-Identifier: MIT
"""Rounds of load that end with kill -9 of some processes at a random moment."""
import random
import time

from lib.sender import Load, paced
from lib.telemetry import endless


def rounds_of_kill9(door, victims, rounds):
    """Loads door.port for a random part of a second, kills what victims(chance, number) names, starts
    it again; so many times. Every request is tried three times with the same bytes and key. Returns
    all that was sent, with its answers."""
    seed = time.time_ns()
    chance = random.Random(seed)
    requests, sent = endless(), []
    for number in range(rounds):
        load = Load(door.port, paced(requests, 400), connections=8, retry=2, retry_wait_s=0.02,
                    timeout=10).start()
        time.sleep(chance.uniform(0.05, 0.7))  # the random moment, not a synchronisation
        killed = victims(chance, number)
        for process in killed:
            process.kill9()
        for process in killed:
            process.start()
        sent += load.stop().sent
    assert sum(one.is_accepted for one in sent) > rounds * 10, f"hardly any load; seed {seed}"
    return sent
