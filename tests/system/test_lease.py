# SPDX-License-Identifier: MIT
"""The lease: of all daemons on a store one is the leader, and only its passes do the live work. An
embedded store belongs to one daemon, which then is the leader."""
import json
import os
import re
import signal
import time
from datetime import datetime

import pytest

from lib import http, tools
from lib.lease import Replicas, leads
from lib.link import Link
from lib.postgres import PgBouncer
from lib.store import Store
from lib.wait import wait_until

PASS = "500ms"


def listed(daemon, key=None):
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
    wait_until(lambda: listed(daemon, "admin-key-01234567"), what="the replica is listed")
    (row,) = listed(daemon, "admin-key-01234567").values()
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


# Several replicas on one database.

PASS_S = 2.0


@pytest.fixture
def trio(site, postgres):
    the_trio = Replicas(site, postgres, PASS_S, ["a", "b", "c"])
    yield the_trio
    the_trio.lease.check()


def test_another_leads_within_three_passes_after_kill9(trio):
    leader, fence = trio.leader()
    trio.lease.wait_writes(fence)
    leader.kill9()
    trio.taken_over(fence, time.monotonic())


def test_another_leads_at_once_after_sigterm(trio):
    leader, fence = trio.leader()
    trio.lease.wait_writes(fence)
    since = time.monotonic()
    assert leader.stop() == 0
    assert f"lease.given_up - fence={fence}" in leader.log()
    new, new_fence, _ = trio.taken_over(fence, since, passes=1.5)
    assert new is not leader and new_fence == fence + 1


def test_a_frozen_leader_that_thaws_writes_nothing(trio):
    leader, fence = trio.leader()
    trio.lease.wait_writes(fence)
    leader.pause()
    trio.taken_over(fence, time.monotonic())
    leader.resume()
    wait_until(lambda: not leads(leader), what="the old leader follows")
    trio.lease.wait_writes(trio.lease.fence(), count=2)
    assert f"lease.lost - fence={fence}" in leader.log()


def test_a_leader_that_freezes_amid_a_transaction_holds_nobody_up(site, postgres):
    """Its transaction has locked the lease's row, which a bid has to change."""
    with Link(postgres.server.port, delay_s=0.02) as slow:
        trio = Replicas(site, postgres, PASS_S, ["a", "b", "c"],
                        urls={"a": postgres.url_at(slow.port)})
        leader, fence = trio.leader()
        trio.lease.wait_writes(fence)
        assert leader is trio["a"]
        is_amid = False
        while not is_amid:
            leader.resume()
            wait_until(trio.lease.is_between_statements, 30, "an open transaction", every=0.001)
            leader.pause()
            is_amid = trio.lease.is_between_statements()
        trio.taken_over(fence, time.monotonic())
        leader.resume()
        wait_until(lambda: not leads(leader), what="the old leader follows")
    trio.lease.check()


def test_sigterm_amid_a_write_lets_it_be_done(site, postgres):
    duo = Replicas(site, postgres, PASS_S, ["a", "b"], slow_s=0.1)
    leader, fence = duo.leader()
    duo.lease.wait_writes(fence)
    writes = duo.lease.writes(fence)
    wait_until(duo.lease.is_writing, 30, "a write", every=0.002)
    assert leader.stop() == 0
    assert duo.lease.writes(fence) == writes + 1 and "pass.failing" not in leader.log()
    assert f"lease.given_up - fence={fence}" in leader.log()
    duo.lease.check()


def test_a_leader_cut_off_follows_before_another_leads(site, postgres):
    with Link(postgres.server.port) as link:
        trio = Replicas(site, postgres, PASS_S, ["a", "b", "c"],
                        urls={"a": postgres.url_at(link.port)})
        leader, fence = trio.leader()
        assert leader is trio["a"]
        trio.lease.wait_writes(fence)
        trio.lease.renewed()
        link.cut()
        since = time.monotonic()
        wait_until(lambda: not leads(leader), what="the leader cut off follows")
        assert trio.lease.fence() == fence, "another was leading already"
        trio.taken_over(fence, since)
        link.mend()
        leader.wait_ready()
        assert trio.lease.leader()[0] != "a" and not leads(leader)
    trio.lease.check()


def test_a_lease_given_away_makes_the_holder_follow_within_a_pass(trio):
    leader, fence = trio.leader()
    trio.lease.wait_writes(fence)
    trio.lease.database.execute(
        "update lease set holder = 'somebody', fence = fence + 1,"
        " expires_at = clock_timestamp() + interval '6 seconds'")
    since = time.monotonic()
    wait_until(lambda: not leads(leader), what="the holder of before follows")
    assert time.monotonic() - since <= PASS_S + 0.5
    # Nobody else believes it either, until the stranger's lease runs out.
    for _ in range(10):
        assert not any(leads(one) for one in trio.daemons.values())
        time.sleep(0.1)
    assert trio.lease.writes(fence + 1) == 0
    _, new_fence = trio.lease.wait_leader(above=fence + 1)
    assert new_fence == fence + 2


# Gives the lease away in the transaction of a renewal, which its holder is told went well.
BETRAY = """
create function betray() returns trigger language plpgsql as $$ begin
  update lease set holder = 'somebody', fence = fence + 1,
    expires_at = clock_timestamp() + interval '6 seconds'; return null; end $$;
create trigger z_betray after update on lease for each row
  when (pg_trigger_depth() = 0 and new.fence = old.fence) execute function betray()
"""


def test_a_leader_that_knows_nothing_of_its_loss_writes_nothing(site, postgres):
    lone = Replicas(site, postgres, PASS_S, ["a"])
    daemon, fence = lone.leader()
    lone.lease.wait_writes(fence)
    postgres.execute(BETRAY)
    wait_until(lambda: lone.lease.fence() > fence, what="the lease is another's")
    wait_until(lambda: not leads(daemon), what="it follows")
    postgres.execute("drop trigger z_betray on lease")
    assert f"lease.lost - fence={fence} reason=\"a write was refused" in daemon.log()
    lone.lease.wait_writes(fence + 2)
    lone.lease.check()


LONG_S = 3.0


def frozen_after_a_renewal(site, postgres, link, passes):
    """A lone leader whose way to the database freezes just after a renewal for so many passes."""
    lone = Replicas(site, postgres, LONG_S, ["a"], urls={"a": postgres.url_at(link.port)})
    daemon, fence = lone.leader()
    lone.lease.wait_writes(fence)
    lone.lease.renewed()
    since = time.monotonic()
    time.sleep(0.3)  # the answer is to be through the link as well
    link.freeze()
    return lone, daemon, fence, since + passes * LONG_S


def test_a_renewal_late_by_a_pass_leaves_the_leader_in_place(site, postgres):
    with Link(postgres.server.port) as link:
        # The renewal that is due after one pass goes through before the end of the second.
        lone, daemon, fence, until = frozen_after_a_renewal(site, postgres, link, 1.9)
        while time.monotonic() < until:
            assert leads(daemon)
            time.sleep(0.05)
        link.mend()
        lone.lease.renewed()
        lone.lease.wait_writes(fence, count=lone.lease.writes(fence) + 2)
        assert leads(daemon) and lone.lease.fence() == fence
        assert "lease.lost" not in daemon.log()


def test_a_leader_without_renewals_follows_before_the_lease_runs_out(site, postgres):
    with Link(postgres.server.port) as link:
        lone, daemon, fence, until = frozen_after_a_renewal(site, postgres, link, 2.6)
        wait_until(lambda: not leads(daemon), what="it follows", every=0.005)
        assert lone.lease.leader() == ("a", fence), "the lease had run out before"
        writes = lone.lease.writes(fence)
        wait_until(lambda: time.monotonic() >= until, what="the rest of it")
        link.mend()
        _, new_fence = lone.lease.wait_leader(above=fence)
        lone.lease.wait_writes(new_fence)
        assert lone.lease.writes(fence) == writes
        lone.lease.check()


@pytest.mark.skipif(not tools.faketime(), reason="FAKETIME IS MISSING: `make setup` fetches it")
def test_a_clock_one_hour_ahead_changes_nothing(site, postgres):
    """The database's clock decides when a lease is over, and waits are by a clock nobody sets."""
    duo = Replicas(site, postgres, PASS_S, ["a"])
    duo.daemons["b"] = site.daemon(
        name="b", store=postgres.url, threads=8, pass_interval=f"{round(PASS_S * 1000)}ms",
        env={"MCPD_NAME": "b", **tools.faketime("+1h")})
    clock = re.findall(r"^(\S+) info daemon started", duo["b"].log(), re.M)[-1]
    ahead = datetime.fromisoformat(clock.rstrip("Z")) - datetime.utcnow()
    assert 3000 < ahead.total_seconds() < 3700, "the clock is not ahead"
    leader, fence = duo.leader()
    duo.lease.wait_writes(fence, duo.lease.writes(fence) + 4)
    assert leader is duo["a"] and duo.lease.fence() == fence and not leads(duo["b"])
    leader.kill9()
    duo.taken_over(fence, time.monotonic())
    leader.start()  # and the other way round: the one ahead keeps it
    duo.lease.wait_writes(fence + 1, duo.lease.writes(fence + 1) + 3)
    assert duo.lease.leader() == ("b", fence + 1)
    duo.lease.check()


@pytest.mark.skipif(not tools.find("pgbouncer"), reason="PGBOUNCER IS MISSING: `make setup` fetches it")
def test_behind_a_pooler_a_killed_leader_leaves_nothing_behind(site, postgres):
    with PgBouncer(postgres.server) as pooler:
        url = postgres.url_at(pooler.port)
        trio = Replicas(site, postgres, PASS_S, ["a", "b", "c"], urls=dict.fromkeys("abc", url))
        for _ in range(2):
            leader, fence = trio.leader()
            trio.lease.wait_writes(fence)
            leader.kill9()
            trio.taken_over(fence, time.monotonic())
            leader.start()
        trio.lease.check()


def test_a_frozen_database_ends_the_role_in_time_and_it_comes_back(site, postgres):
    lone = Replicas(site, postgres, PASS_S, ["a"])
    daemon, fence = lone.leader()
    lone.lease.wait_writes(fence)
    try:
        postgres.server.pause()
        since = time.monotonic()
        wait_until(lambda: not leads(daemon), what="it follows", every=0.005)
        assert time.monotonic() - since <= 2.5 * PASS_S
        wait_until(lambda: daemon.readyz()[0] == 503, what="it says that it is not ready")
        # The passes are not stuck in a call that never ends.
        tries = daemon.metric("mcpd_pass_failures_total")
        daemon.wait_metric("mcpd_pass_failures_total", tries + 2)
    finally:
        postgres.server.resume()
    _, new_fence = lone.lease.wait_leader(above=fence)
    lone.lease.wait_writes(new_fence, count=2)
    daemon.wait_ready()
    lone.lease.check()


def freeze_idle(postgres, backend):
    """Stops a backend of the server between two transactions, where it holds no lock."""
    while True:
        os.kill(backend, signal.SIGSTOP)
        state = postgres.query("select state from pg_stat_activity where pid = %s", backend)
        if state == [("idle",)]:
            return
        os.kill(backend, signal.SIGCONT)
        time.sleep(0.01)


@pytest.mark.parametrize("table", ["watch_writes", "watch_lease"])
def test_a_stalled_call_is_given_up_and_the_leader_goes_on(site, postgres, table):
    """Of the passes and of the lease, which have connections of their own."""
    lone = Replicas(site, postgres, PASS_S, ["a"])
    daemon, fence = lone.leader()
    lone.lease.wait_writes(fence, count=2)
    lone.lease.renewed()
    (backend,), = postgres.query(f"select backend from {table} order by seq desc limit 1")
    freeze_idle(postgres, backend)
    try:
        metric = {"watch_writes": "mcpd_pass_failures_total",
                  "watch_lease": "mcpd_lease_failures_total"}[table]
        daemon.wait_metric(metric, 1)
        lone.lease.renewed()
        lone.lease.wait_writes(fence, count=lone.lease.writes(fence) + 2)
        assert lone.lease.fence() == fence and "lease.lost" not in daemon.log()
    finally:
        os.kill(backend, signal.SIGCONT)
    lone.lease.check()


def test_nobody_goes_on_under_the_fence_that_another_start_of_the_server_gave(site, postgres):
    lone = Replicas(site, postgres, PASS_S, ["a"])
    daemon, fence = lone.leader()
    lone.lease.wait_writes(fence)
    postgres.server.stop()
    postgres.server.start()
    _, new_fence = lone.lease.wait_leader(above=fence)
    lone.lease.wait_writes(new_fence)
    assert f"lease.lost - fence={fence}" in daemon.log()
    lone.lease.check()


def test_a_bid_goes_above_every_fence_seen_though_the_database_forgot(site, postgres):
    """As after a failover to a server that was behind."""
    duo = Replicas(site, postgres, PASS_S, ["a", "b"])
    duo.daemons["a"].stop()
    _, fence = duo.lease.wait_leader(above=1)
    duo.lease.wait_writes(fence)
    postgres.execute("update lease set fence = 1")
    _, new_fence = duo.lease.wait_leader(above=fence)
    assert new_fence == fence + 1
    duo.lease.wait_writes(new_fence)


def test_replicas_on_one_database_list_each_other(trio):
    leader, fence = trio.leader()
    wait_until(lambda: len(listed(leader)) == 3, what="three replicas")
    for daemon in trio.daemons.values():
        rows = listed(daemon)
        assert sorted(rows) == ["a", "b", "c"]
        assert [row["id"] for row in rows.values() if row["role"] == "leader"] == [leader.name]
        assert rows[leader.name]["fence"] == fence
        assert daemon.metric("mcpd_config_mismatch") == 0
    # One that has been away for a day is forgotten.
    gone = trio.others(leader)[0]
    gone.kill9()
    trio.lease.database.execute("update replicas set seen_at = seen_at - interval '25 hours'"
                                " where id = %s", gone.name)
    wait_until(lambda: gone.name not in listed(leader), what="it is forgotten")


def test_replicas_with_different_settings_say_so(site, postgres):
    (site.folder / "other.yaml").write_text("version: 1\nkeys: []\n", encoding="ascii")
    duo = Replicas(site, postgres, 1.0, ["a", "b"])
    hashes = {row["config_hash"] for row in listed(duo["a"]).values()}
    assert hashes == {""} and duo["a"].metric("mcpd_config_mismatch") == 0
    duo["b"].stop()
    duo["b"].options["config"] = "other.yaml"
    duo["b"].start()
    for daemon in duo.daemons.values():
        daemon.wait_metric("mcpd_config_mismatch", 1)
    rows = listed(duo["a"])
    assert rows["a"]["config_hash"] == "" and len(rows["b"]["config_hash"]) == 64
    duo["b"].stop()
    wait_until(lambda: duo["a"].metric("mcpd_config_mismatch") == 0, what="the other is forgotten")
