# SPDX-License-Identifier: MIT
"""Gateway, broker and courier as three processes over ipc: the same code as in a relay, and each of
them may die alone."""
import os
import stat
import time

import pytest

from lib import http
from lib.sender import Load, paced
from lib.store import Comparison, Store
from lib.telemetry import endless, mixed
from lib.wait import wait_until


@pytest.fixture
def roles(site):
    """Daemon, broker, gateway and courier."""
    daemon = site.daemon()
    broker = site.broker()
    return daemon, broker, site.gateway(broker), site.courier(broker, upstream=daemon.url)


def test_three_processes_deliver_what_they_accept(roles):
    daemon, broker, gateway, _ = roles
    wait_until(lambda: gateway.readyz()[0] == 200, 10, gateway.readyz)
    load = Load(gateway.port, mixed(600), connections=8).run()
    assert load.statuses().keys() <= {200, 202}
    broker.wait_drained()
    Comparison(load.sent, Store(daemon.data)).check()


@pytest.mark.parametrize("victim", ["broker", "gateway", "courier"])
def test_each_process_may_be_killed_under_load(roles, victim):
    daemon, broker, gateway, courier = roles
    wait_until(lambda: gateway.readyz()[0] == 200, 10, gateway.readyz)
    process = {"broker": broker, "gateway": gateway, "courier": courier}[victim]
    load = Load(gateway.port, paced(endless(), 400), connections=8, retry=2).start()
    for _ in range(3):
        time.sleep(0.4)
        process.kill9()
        process.start()
    wait_until(lambda: gateway.readyz()[0] == 200, 15, gateway.readyz)
    before = len(load.accepted)
    wait_until(lambda: len(load.accepted) > before + 50, 15, "requests are accepted again")
    load.stop()
    broker.wait_drained()
    Comparison(load.sent, Store(daemon.data)).check()


def test_gateway_without_broker_refuses_and_recovers(roles):
    """No broker: 503 with Retry-After, never a 2xx; back by itself."""
    _, broker, gateway, _ = roles
    wait_until(lambda: gateway.readyz()[0] == 200, 10, gateway.readyz)
    broker.kill9()
    reply = http.post(gateway.port, "/v1/ingest", b"{}")
    assert reply.status == 503 and reply.headers["retry-after"] == "1"
    wait_until(lambda: gateway.readyz() == (503, "no broker"), 10, gateway.readyz)
    broker.start()
    wait_until(lambda: http.post(gateway.port, "/v1/ingest", b"{}").status == 202, 10,
               "requests are accepted again")


def test_sockets_are_the_user_s_alone(roles):
    """libzmq makes ipc sockets for everybody; ours hold what senders' keys protect."""
    _, broker, _, _ = roles
    sockets = list(broker.spool.glob("*.sock"))
    assert len(sockets) >= 2
    for path in sockets:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
