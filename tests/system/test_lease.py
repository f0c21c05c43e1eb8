# SPDX-License-Identifier: MIT
"""The lease: of all daemons on a store one is the leader, and only its passes do the live work. An
embedded store belongs to one daemon, which is the leader then."""
import json

from lib import http
from lib.store import Store
from lib.wait import wait_until

PASS = "500ms"


def replicas(daemon, key=None):
    """What GET /v1/replicas says, by id."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    reply = http.get(daemon.port, "/v1/replicas", headers=headers)
    assert reply.status == 200, reply
    return {row["id"]: row for row in json.loads(reply.body)["replicas"]}


def test_the_daemon_of_an_embedded_store_leads_with_a_rising_fence(site):
    daemon = site.daemon(pass_interval=PASS)
    for fence in (1, 2, 3):
        daemon.wait_metric("mcpd_lease_fence", fence)
        daemon.wait_metric("mcpd_lease_held", 1)
        wait_until(lambda: Store(daemon.data).query("select fence from passes where step = 'pass'")
                   == [(fence,)], what="a pass is marked with the fence")
        if fence == 1:
            daemon.kill9()
        else:
            assert daemon.stop() == 0
            assert f"lease.given_up - fence={fence}" in daemon.log()
            assert Store(daemon.data).query("select holder, fence from lease") == [(None, fence)]
        daemon.start()


def test_replicas_are_listed_for_keys_that_may_do_all(site):
    daemon = site.daemon(pass_interval=PASS, ingest_key=[
        "shop/rd=reader-key-0123456", "shop/ad=admin-key-01234567"])
    daemon.wait_metric("mcpd_lease_held", 1)
    wait_until(lambda: replicas(daemon, "admin-key-01234567"), what="the replica is listed")
    (row,) = replicas(daemon, "admin-key-01234567").values()
    assert (row["role"], row["fence"]) == ("leader", 1)
    assert row["url"] == f"127.0.0.1:{daemon.port}" and row["version"]
    assert row["seen_ns"] > 1_700_000_000_000_000_000 and row["config_hash"] == ""
    reply = http.get(daemon.port, "/v1/replicas",
                     headers={"authorization": "Bearer reader-key-0123456"})
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (403, "wrong_scope")


def test_a_step_of_the_passes_shows_its_times(site):
    daemon = site.daemon(pass_interval=PASS)
    wait_until(lambda: daemon.metrics().get('mcpd_pass_seconds_count{step="pass"}', 0) >= 3,
               what="three passes")
    assert daemon.metrics()['mcpd_pass_seconds_bucket{step="replica",le="+Inf"}'] >= 3
