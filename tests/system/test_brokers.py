# SPDX-License-Identifier: MIT
"""A gateway whose broker is away, slow or full: senders get an answer in time, the next broker where
there is one, and never a 2xx for what no broker has on disk."""
import threading
import time

import pytest

from lib import http
from lib.queue_peer import Courier
from lib.wait import wait_until


def post(gateway, body=b"x", **more):
    return http.post(gateway.port, "/v1/ingest", body, **more)


def timed(function):
    since = time.monotonic()
    result = function()
    return result, time.monotonic() - since


def wait_takes(gateway, seconds=20.0):
    wait_until(lambda: post(gateway).status == 202, seconds, gateway.log)


def test_killed_broker_is_noticed_at_once_and_its_return_too(site):
    broker = site.broker()
    gateway = site.gateway(broker, broker_timeout="30s")
    wait_takes(gateway)
    broker.kill9()
    reply, seconds = timed(lambda: post(gateway))
    assert reply.status == 503 and reply.headers["retry-after"] == "1"
    wait_until(lambda: gateway.readyz() == (503, "no broker"), 10, lambda: str(gateway.readyz()))
    assert seconds < 10, "as if it were silent"
    broker.start()
    wait_takes(gateway, 20)
    assert gateway.readyz()[0] == 200


@pytest.mark.parametrize("options, least, most", [
    ({"broker_timeout": "2s"}, 1.9, 20),
    ({"broker_timeout": "60s", "request_timeout_seconds": 1}, 0.9, 20)])
def test_silent_broker_is_waited_for_as_long_as_told(site, options, least, most):
    broker = site.broker()
    gateway = site.gateway(broker, **options)
    wait_takes(gateway)
    broker.pause()
    reply, seconds = timed(lambda: post(gateway))
    assert reply.status == 503 and reply.headers["retry-after"] == "1"
    assert least <= seconds <= most
    broker.resume()
    wait_takes(gateway, 20)


def test_slow_sync_is_waited_for(site):
    """A disk that takes its time silences the broker; that is no reason to give it up."""
    faults = site.folder / "faults"
    broker = site.broker(binary="mcpd-faults", env={"MCPD_FSIO": f"@{faults}"})
    gateway = site.gateway(broker)
    wait_takes(gateway)
    faults.write_text("sync:*/seg/*.log@1=delay=3000")
    reply, seconds = timed(lambda: post(gateway))
    assert reply.status == 202 and 2.9 <= seconds
    assert "broker.silent" not in gateway.log()


def test_smaller_limit_of_the_two_counts(site):
    broker = site.broker(max_body_bytes="64KiB", spool_max_bytes="64MiB")
    gateway = site.gateway(broker, max_body_bytes="1MiB")
    wait_takes(gateway)
    assert post(gateway, b"x" * 65536).status == 202
    assert post(gateway, b"x" * 65537).status == 413
    assert post(gateway).status == 202


def two_brokers(site, **first_options):
    first = site.broker(**{"spool_dir": "first", **first_options})
    second = site.broker(spool_dir="second")
    gateway = site.gateway([first, second], broker_timeout="2s")
    wait_until(lambda: gateway.log().count("broker.up") == 2, 5, gateway.log)
    return first, second, gateway


def waiting(broker):
    return broker.metric("mcpd_relay_spool_entries")


def test_full_broker_passes_its_requests_to_the_next(site):
    first, second, gateway = two_brokers(site, max_body_bytes="16KiB", spool_max_bytes="512KiB")
    sent = 0
    while waiting(second) == 0:
        assert post(gateway, b"x" * 16000).status == 202
        sent += 1
        assert sent < 100
    assert waiting(first) + waiting(second) == sent and waiting(first) > 0


def test_killed_broker_passes_its_requests_to_the_next(site):
    first, second, gateway = two_brokers(site)
    assert post(gateway).status == 202 and waiting(first) == 1
    first.kill9()
    assert post(gateway).status == 202 and waiting(second) == 1
    second.kill9()
    assert post(gateway).status == 503
    first.start()
    wait_takes(gateway)


def test_silent_broker_passes_its_requests_to_the_next(site):
    """It may have stored them, too: the key makes that harmless."""
    first, second, gateway = two_brokers(site)
    first.pause()
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(post(gateway).status))
               for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert replies == [202] * 20
    assert waiting(second) == 20


def test_stopped_broker_has_on_disk_whatever_was_answered_2xx(site):
    """SIGTERM under load of a broker alone: what it acknowledged is given out after its return."""
    broker = site.broker()
    gateway = site.gateway(broker)
    wait_takes(gateway)
    accepted, stop = [], threading.Event()

    def send(sender):
        number = 0
        while not stop.is_set():
            key = f"{sender}-{number}"
            with http.Connection(gateway.port) as connection:
                reply = connection.request("POST", "/v1/ingest", b"x", [("Idempotency-Key", key)])
            if reply.status == 202:
                accepted.append(key)
            number += 1
            stop.wait(0.001)

    threads = [threading.Thread(target=send, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(accepted) > 200, 20)
    assert broker.stop(10) == 0
    stop.set()
    for thread in threads:
        thread.join(20)
    broker.start()
    seen = set()
    with Courier(broker).hello(credit=10000) as courier:
        while not seen >= set(accepted):
            lease = courier.lease()
            seen.add(lease.meta["key"])
            courier.send("DONE", lease.token)
