# SPDX-License-Identifier: MIT
"""Whoever speaks the queue protocol, in whatever language, is served by a broker: what it says is
stored is stored, what it leases out is never lost, and nobody who speaks nonsense harms others."""
import os
import random
import socket
import stat
import time

import pytest

from lib.queue_peer import (FAILED, FULL, STORED, TOO_LARGE, Courier, Gateway, Lease, Message, Peer, meta)
from lib.wait import wait_until

LIMIT = 64 * 1024


@pytest.fixture(name="broker")
def broker_fixture(site):
    return site.broker(max_body_bytes="64KiB", spool_max_bytes="64MiB", lease="1s")


def store(broker, *keys, body=b"body"):
    with Gateway(broker).hello() as gateway:
        assert gateway.submit(*[(meta(key=key), body) for key in keys]) == [STORED] * len(keys)
        gateway.send("BYE")


def wait_waiting(broker, count, seconds=10.0):
    wait_until(lambda: broker.metric("mcpd_relay_spool_entries") == count, seconds,
               lambda: f"{count} waiting, is {broker.metric('mcpd_relay_spool_entries')}")


def test_what_goes_in_comes_out_byte_for_byte_and_done_ends_it(broker):
    requests = [(meta(key=f"k{i}", agent=f"a{i}"), os.urandom(i * 997)) for i in range(20)]
    with Gateway(broker).hello() as gateway, Courier(broker).hello(credit=20) as courier:
        assert gateway.submit(*requests) == [STORED] * 20
        for raw_meta, body in requests:
            lease = courier.lease()
            assert (lease.raw_meta, lease.body) == (raw_meta, body)
            assert (lease.rounds, lease.suspect, lease.first_fail_s) == (0, False, 0)
            courier.send("DONE", lease.token)
        wait_waiting(broker, 0)


def test_stored_means_there_after_kill_9(broker):
    store(broker, "a", "b", "c")
    broker.kill9()
    broker.start()
    with Courier(broker).hello(credit=3) as courier:
        assert [courier.lease().meta["key"] for _ in range(3)] == ["a", "b", "c"]


def test_too_large_is_refused_and_its_neighbours_are_not(broker):
    with Gateway(broker).hello() as gateway:
        assert gateway.welcome[2] == LIMIT
        verdicts = gateway.submit((meta(key="a"), b"x" * LIMIT), (meta(key="b"), b"x" * (LIMIT + 1)),
                                  (meta(key="c"), b""), (meta(key="d", agent="y" * 40000), b""))
        assert verdicts == [STORED, TOO_LARGE, STORED, TOO_LARGE]
    wait_waiting(broker, 2)


def test_full_is_said_and_ends_when_there_is_room(site):
    # So large that what a refused request would have taken is less than the 5 % below which the
    # broker is open again.
    broker = site.broker(max_body_bytes="64KiB", spool_max_bytes="4MiB")
    body = b"x" * 60_000
    with Gateway(broker).hello() as gateway, Courier(broker).hello() as courier:
        taken = batches = 0
        while (verdicts := gateway.submit(*[(meta(key=f"k{batches}.{i}"), body)
                                            for i in range(4)])) == [STORED] * 4:
            taken, batches = taken + 4, batches + 1
            assert batches < 20
        taken += verdicts.count(STORED)
        assert gateway.submit((meta(), body)) == [FULL]
        wait_until(lambda: broker.readyz() == (503, "full"))
        courier.send("CREDIT", taken)
        for _ in range(taken):
            courier.send("DONE", courier.lease().token)
        wait_until(lambda: gateway.submit((meta(), b"x" * 1000)) == [STORED], every=0.2)
        wait_until(lambda: broker.readyz() == (200, "ok"))


def test_a_bad_meta_is_not_stored(broker):
    with Gateway(broker).hello() as gateway:
        assert gateway.submit((b"\xc1", b"body"), (meta(), b"")) == [FAILED, STORED]
    wait_waiting(broker, 1)


@pytest.mark.parametrize("side", [Gateway, Courier])
def test_another_version_gets_an_error_and_ours_is_named(broker, side):
    with side(broker) as peer:
        peer.send("HELLO", "me", 1, 0, version=2)
        version, text = peer.expect("ERROR").fields
        assert version == 1 and "version 2" in text
        peer.hello()


@pytest.mark.parametrize("side", [Gateway, Courier])
def test_without_a_session_nothing_works_but_hello(broker, side):
    with side(broker) as peer:
        peer.send("PING")
        assert "HELLO" in peer.expect("ERROR").fields[1]
        peer.hello()
        peer.send("PING")
        peer.expect("PONG")


@pytest.mark.parametrize("socket_name", ["gateway.sock", "courier.sock"])
def test_nonsense_harms_nobody(broker, socket_name):
    rng = random.Random(7)
    with Peer(f"ipc://{broker.spool.resolve()}/{socket_name}") as peer:
        for _ in range(2000):
            frames = [rng.randbytes(rng.choice([0, 1, 2, 5, 40])) for _ in range(rng.randint(1, 4))]
            if rng.random() < 0.8:
                frames[0] = bytes([1, rng.randrange(20)]) + frames[0]
            peer.send_frames(*frames)
        peer.send_frames(*[b"\x01\x03\x92\x01\x01"] + [b""] * 5000)
        for _ in range(50):
            raw = socket.socket(socket.AF_UNIX)
            raw.connect(str(broker.spool / socket_name))
            raw.send(b"GET / HTTP/1.1\r\n\r\n" + rng.randbytes(200))
            raw.close()
        store(broker, "good")
    with Courier(broker).hello(credit=1) as courier:
        assert courier.lease().meta["key"] == "good"
    assert broker.is_alive()


@pytest.mark.parametrize("count, frames", [(0, 0), (1, 0), (1, 1), (1, 3), (2, 2), (1025, 2050)])
def test_a_submit_that_lies_about_its_length_stores_nothing(broker, count, frames):
    with Gateway(broker).hello() as gateway:
        gateway.send("SUBMIT", 1, count, bodies=[meta()] * frames)
        gateway.expect("ERROR")
        gateway.hello()
    wait_waiting(broker, 0)


def test_credit_is_never_exceeded(broker):
    store(broker, *[f"k{i}" for i in range(10)])
    with Courier(broker).hello(credit=3) as courier:
        leases = [courier.lease() for _ in range(3)]
        assert courier.gone_quiet("LEASE", 0.5)
        courier.send("DONE", leases[0].token)
        assert courier.gone_quiet("LEASE", 0.3)
        courier.send("CREDIT", 2)
        courier.lease(), courier.lease()
        assert courier.gone_quiet("LEASE", 0.3)


def test_a_lease_not_renewed_goes_to_somebody_else(broker):
    store(broker, "k")
    with Courier(broker, "sleepy").hello(credit=1) as sleepy, Courier(broker).hello() as other:
        old = sleepy.lease()
        other.send("CREDIT", 1)
        new = other.lease()
        assert new.meta["key"] == "k" and new.token != old.token
        sleepy.send("DONE", old.token)  # too late: the lease is another's
        broker.wait_metric("mcpd_queue_stale_tokens_total", 1)
        assert broker.metric("mcpd_relay_spool_entries") == 1
        assert broker.metric("mcpd_queue_lease_expiries_total") == 1


def test_a_renewed_lease_stays(site):
    broker = site.broker(lease="3s")
    store(broker, "k")
    with Courier(broker).hello(credit=2) as courier:
        lease = courier.lease()
        end = time.monotonic() + 7
        while time.monotonic() < end:
            courier.send("RENEW", [lease.token, b"junk", lease.token])
            assert courier.gone_quiet("LEASE", 0.25)
        courier.send("DONE", lease.token)
        wait_waiting(broker, 0)


def test_bye_gives_leases_back_at_once(site):
    broker = site.broker(lease="60s")
    store(broker, "k")
    with Courier(broker).hello(credit=1) as first, Courier(broker).hello(credit=1) as second:
        leased, waiting = (first, second) if first.receive(5).name == "LEASE" else (second, first)
        leased.send("BYE")
        assert waiting.lease(2).meta["key"] == "k"
    assert broker.metric("mcpd_queue_lease_expiries_total") == 0


def test_a_silent_courier_loses_its_leases_after_five_heartbeats(site):
    broker = site.broker(lease="60s")
    store(broker, "k")
    with Courier(broker).hello(credit=1) as silent:
        silent.lease()
        since = time.monotonic()
        with Courier(broker).hello(credit=1) as other:
            assert other.lease(20).meta["key"] == "k"
        assert time.monotonic() - since > 3.5


def test_a_new_session_under_the_same_name_takes_over(site):
    broker = site.broker(lease="60s")
    store(broker, "k")
    with Courier(broker, "twin").hello(credit=1) as old:
        lease = old.lease()
        with Courier(broker, "twin").hello(credit=1) as new:
            assert new.lease(2).meta["key"] == "k"
            old.expect("ERROR")
            old.send("DONE", lease.token)
            old.expect("ERROR")
            assert broker.metric("mcpd_relay_spool_entries") == 1


def test_hello_again_with_the_same_session_keeps_leases(site):
    """As after a dropped connection."""
    broker = site.broker(lease="60s")
    store(broker, "k", "l")
    with Courier(broker, "me").hello(credit=1) as before:
        lease = before.lease()
        with Courier(broker, "me") as after:
            after.session = before.session
            after.hello(credit=1)
            assert after.lease().meta["key"] == "l"
            after.send("DONE", lease.token)
            wait_waiting(broker, 1)


def test_released_comes_again_no_earlier_than_asked_and_unchanged(broker):
    store(broker, "k")
    with Courier(broker).hello(credit=2) as courier:
        lease = courier.lease()
        since = time.monotonic()
        courier.send("RELEASE", lease.token, 700)
        again = courier.lease()
        assert 0.69 <= time.monotonic() - since < 3
        assert (again.rounds, again.suspect, again.body) == (0, False, lease.body)


def test_retried_comes_again_with_its_counts_also_after_a_restart(broker):
    store(broker, "k", "other")
    with Courier(broker).hello(credit=3) as courier:
        lease, other = courier.lease(), courier.lease()
        since = time.monotonic()
        courier.send("RETRY", lease.token, 500, 4, True, 1700000000)
        courier.send("DONE", other.token)
        again = courier.lease()
        assert time.monotonic() - since >= 0.49
        assert (again.rounds, again.suspect, again.first_fail_s) == (4, True, 1700000000)
        assert broker.stop() == 0
    broker.start()
    with Courier(broker).hello(credit=1) as courier:
        again = courier.lease()
        assert (again.meta["key"], again.rounds, again.suspect) == ("k", 4, True)


def test_dead_is_kept_aside_counted_and_never_leased_again(broker):
    store(broker, "bad", "good")
    with Courier(broker).hello(credit=2) as courier:
        bad, good = courier.lease(), courier.lease()
        courier.send("DEAD", bad.token, "refused", 400, "http://up", b"no such thing")
        courier.send("DONE", good.token)
        wait_waiting(broker, 0)
        broker.wait_metric("mcpd_relay_dead_letter_total", 1)
        letters = list((broker.spool / "dead").iterdir())
        assert letters and b"no such thing" in letters[0].read_bytes()
        assert bad.raw_meta in letters[0].read_bytes()
    broker.kill9()
    broker.start()
    with Courier(broker).hello(credit=5) as courier:
        # That `good` is done may not have reached the file: then it comes once more.
        if broker.metric("mcpd_relay_spool_entries") > 0:
            assert courier.lease().meta["key"] == "good"
        assert courier.gone_quiet("LEASE", 0.5)


def work_until_killed(broker, delivered):
    """One life of a courier that the request `killer` ends without a word; True: there is nothing
    left to do."""
    with Courier(broker, "victim").hello(credit=4) as courier:
        while broker.metric("mcpd_relay_spool_entries") > 0:
            message = courier.receive(0.2)
            if message is None or message.name != "LEASE":
                continue
            lease = Lease(message)
            if lease.meta["key"] == "killer":
                return False
            delivered.append(lease.meta["key"])
            courier.send("DONE", lease.token)
            courier.send("CREDIT", 1)
    return True


def test_what_kills_eight_couriers_is_dead_and_the_rest_is_delivered(broker):
    others = [f"k{i}" for i in range(6)] + ["last"]
    store(broker, *others[:6], "killer", "last")
    delivered, lives = [], 1
    while not work_until_killed(broker, delivered):
        lives += 1
        assert lives < 40
    assert set(delivered) == set(others)
    broker.wait_metric("mcpd_relay_dead_letter_total", 1)
    assert broker.metric("mcpd_queue_lease_expiries_total") >= 8
    assert "crashes_courier" in broker.log()


def test_a_token_from_before_a_restart_ends_nothing(broker):
    store(broker, "k")
    with Courier(broker).hello(credit=1) as courier:
        old = courier.lease()
        broker.kill9()
        broker.start()
        courier.hello(credit=1)
        new = courier.lease()
        assert new.token != old.token
        courier.send("DONE", old.token)
        broker.wait_metric("mcpd_queue_stale_tokens_total", 1)
        assert broker.metric("mcpd_relay_spool_entries") == 1
        courier.send("DONE", new.token)
        wait_waiting(broker, 0)


def test_gateways_are_told_of_upstreams_at_once(broker):
    with Gateway(broker).hello() as gateway, Courier(broker).hello() as courier:
        assert gateway.expect("STATUS").fields[4] == 0
        delays = []
        for up in range(1, 6):
            courier.send("UPSTREAMS", up, 9, f"{9 - up} are down")
            since = time.monotonic()
            wait_until(lambda: gateway.expect("STATUS").fields[3:5] == [up, 9])
            delays.append(time.monotonic() - since)
        assert min(delays) < 0.5, "only with the STATUS of each second"
        assert gateway.expect("STATUS").fields[6] == "4 are down"


def test_a_courier_s_note_reaches_gateways_as_clean_text(broker):
    note = b"a\xff\xfe\r\nX: b\0c" + b"\xc3\xa9" * 100
    with Gateway(broker).hello() as gateway, Courier(broker).hello() as courier:
        courier.send_frames(b"\x01\x0d\x93\x00\x01\xd9" + bytes([len(note)]) + note)
        wait_until(lambda: gateway.expect("STATUS").fields[6].startswith("a????X: b?c??"))


def test_sockets_are_for_their_user_only(broker):
    for name in ("gateway.sock", "courier.sock"):
        assert stat.S_IMODE((broker.spool / name).stat().st_mode) == 0o600


def test_a_second_broker_leaves_the_sockets_of_the_first_alone(site, broker):
    second = site.broker(start=False, max_body_bytes="64KiB", spool_max_bytes="64MiB").spawn()
    assert second.wait(10) != 0
    store(broker, "k")


def test_a_socket_path_too_long_is_named(site):
    path = site.folder / ("x" * 100)
    broker = site.broker(start=False, gateway_endpoint=f"ipc://{path}").spawn()
    assert broker.wait(10) != 0
    assert str(path) in broker.log() and "107" in broker.log()


def test_the_end_is_told(broker):
    with Gateway(broker).hello() as gateway, Courier(broker).hello() as courier:
        since = time.monotonic()
        broker.signal(15)
        gateway.expect("BYE")
        courier.expect("BYE")
        assert broker.wait(10) == 0
        assert time.monotonic() - since < 5


def test_a_paused_broker_takes_nobody_for_silent(site):
    broker = site.broker(lease="2s")
    store(broker, "k")
    with Courier(broker).hello(credit=2) as courier, Gateway(broker).hello() as gateway:
        lease = courier.lease()
        broker.pause()
        time.sleep(7)  # the length of the pause is what is tested
        broker.resume()
        courier.send("RENEW", [lease.token])
        courier.send("DONE", lease.token)
        wait_waiting(broker, 0)
        assert gateway.submit((meta(), b"")) == [STORED]
        assert broker.metric("mcpd_queue_lease_expiries_total") == 0


def test_more_waiting_than_fits_into_memory_all_comes_out_in_order(site):
    broker = site.broker()
    total, size = 20_000, 500
    with Gateway(broker).hello() as gateway:
        for start in range(0, total, size):
            requests = [(meta(key=str(i)), b"x" * 20) for i in range(start, start + size)]
            assert gateway.submit(*requests) == [STORED] * size
    with Courier(broker).hello(credit=200) as courier:
        for i in range(total):
            lease = courier.lease()
            assert lease.meta["key"] == str(i)
            courier.send("DONE", lease.token)
            if i % 100 == 99:
                courier.send("CREDIT", 100)
        wait_waiting(broker, 0)


def test_more_failed_than_fits_into_memory_all_comes_again(site):
    """Failed requests beyond half of the window are forgotten and found again when they are due."""
    broker = site.broker()
    total, size = 12_000, 1000
    with Gateway(broker).hello() as gateway:
        for start in range(0, total, size):
            requests = [(meta(key=str(i)), b"") for i in range(start, start + size)]
            assert gateway.submit(*requests) == [STORED] * size
    with Courier(broker).hello(credit=500) as courier:
        failed, done = set(), set()
        while len(failed) < total:
            lease = courier.lease()
            if lease.meta["key"] in failed:  # due already while we fail others
                done.add(lease.meta["key"])
                courier.send("DONE", lease.token)
            else:
                failed.add(lease.meta["key"])
                courier.send("RETRY", lease.token, 3000, 1, False, 1700000000)
            courier.send("CREDIT", 1)
        while len(done) < total:
            lease = courier.lease(20)
            assert (lease.rounds, lease.first_fail_s) == (1, 1700000000)
            assert lease.meta["key"] not in done
            done.add(lease.meta["key"])
            courier.send("DONE", lease.token)
            courier.send("CREDIT", 1)
        wait_waiting(broker, 0)


def test_failed_that_nobody_takes_cost_no_processor_time(site):
    """More failed requests than fit, in several segments, all due, while no courier has credit: the
    broker sleeps until one has."""
    broker = site.broker(max_body_bytes="64KiB", spool_max_bytes="32MiB")
    total, size = 9_500, 500
    with Gateway(broker).hello() as gateway, Courier(broker) as courier:
        for start in range(0, total, size):
            requests = [(meta(key=str(i)), b"x" * 1000) for i in range(start, start + size)]
            assert gateway.submit(*requests) == [STORED] * size
        courier.hello(credit=total)
        for _ in range(total):
            courier.send("RETRY", courier.lease().token, 2000, 1, False, 0)
        assert courier.gone_quiet("LEASE", 3.0)
        before = broker.cpu_seconds()
        assert courier.gone_quiet("LEASE", 2.0)
        assert broker.cpu_seconds() - before < 0.15
        courier.send("CREDIT", 1)
        courier.lease()


def test_a_courier_asked_to_make_room_is_not_forgotten(broker):
    """What ends leases is leased to a courier that has nothing else. One that was to finish for it gets
    other requests again, also when somebody else was free before."""
    store(broker, "killer", "a", "b")
    with Courier(broker).hello(credit=6) as busy, Courier(broker).hello() as free:
        others = [busy.lease() for _ in range(3)][1:]
        while broker.metric("mcpd_queue_lease_expiries_total") < 3:
            busy.send("RENEW", [lease.token for lease in others])
            busy.receive(0.2)  # killer again, which nobody renews
        free.send("CREDIT", 1)
        alone = free.lease()
        assert alone.meta["key"] == "killer"
        free.send("DONE", alone.token)
        for lease in others:
            busy.send("DONE", lease.token)
        store(broker, "later")
        assert busy.lease().meta["key"] == "later"


def test_message_has_a_name():
    """The harness itself: a header frame is version, type, array."""
    assert repr(Message([b"\x01\x0e\x90"])) == "PING[]"
