# SPDX-License-Identifier: MIT
"""kill -9 loses nothing that was answered 2xx, and nothing is stored twice. 'Twice' counts rows and
also the sums in the daemon's table of traces: a second copy that went past the identity of rows
would show there."""
import random
import time

from lib.rounds import rounds_of_kill9
from lib.sender import Load, paced
from lib.store import Comparison
from lib.telemetry import endless, mixed, native_request, otlp_request
from lib import http

ROUNDS = 50


def test_fifty_rounds_of_kill9_lose_nothing_and_store_nothing_twice(any_site):
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=daemon.url)
    sent = rounds_of_kill9(relay, lambda chance, number: [relay] + [daemon] * (number % 5 == 4),
                           ROUNDS)
    relay.wait_drained(120)
    Comparison(sent, daemon.store()).check()
    assert relay.metric("mcpd_relay_dead_letter_total") == 0
    assert relay.metric("mcpd_spool_corrupt_records_total") == 0


def test_killed_daemon_gets_what_it_had_not_committed(any_site):
    """The daemon alone is killed, again and again, with requests in its hands."""
    chance = random.Random(7)
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=daemon.url)
    load = Load(relay.port, paced(endless(), 400), connections=8, retry=2).start()
    for _ in range(6):
        time.sleep(chance.uniform(0.2, 0.6))
        daemon.kill9()
        daemon.start()
    load.stop()
    relay.wait_drained(60)
    assert load.statuses().keys() <= {200, 202}
    Comparison(load.sent, daemon.store()).check()


def resend(relay, load):
    """Sends all of a load's requests once more, byte for byte, and waits for their delivery."""
    again = Load(relay.port, [sent.request for sent in load.sent]).run()
    assert len(again.accepted) == len(load.sent)
    relay.wait_drained()


def test_resend_is_one_by_its_key(any_site):
    """First layer: the request key, stored in the data's transaction."""
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=daemon.url)
    load = Load(relay.port, mixed(60)).run()
    relay.wait_drained()
    resend(relay, load)
    Comparison(load.sent, daemon.store()).check()


def test_resend_is_one_by_its_spans_when_the_keys_are_gone(any_site):
    """Second layer alone: with the key rows deleted the identity of spans must catch it."""
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=daemon.url)
    load = Load(relay.port, mixed(60)).run()
    relay.wait_drained()
    store = daemon.store()
    daemon.stop()
    assert store.forget_keys() >= 60
    daemon.start()
    resend(relay, load)
    Comparison(load.sent, store).check()


def test_known_key_stores_nothing_new_whatever_it_carries(any_site):
    """First layer alone: the same key with other span ids, which no identity could catch."""
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=daemon.url)
    first = [otlp_request(1, key="twice-1"), native_request(2, key="twice-2"),
             native_request(3, body_key="twice-3")]
    other = [otlp_request(4, key="twice-1"), native_request(5, key="twice-2"),
             native_request(6, body_key="twice-3")]
    load = Load(relay.port, first).run()
    relay.wait_drained()
    second = Load(relay.port, other).run()
    assert len(second.accepted) == 3
    relay.wait_drained()
    Comparison(load.sent, daemon.store()).check()
    assert relay.metric("mcpd_relay_dead_letter_total") == 0


def test_direct_and_relayed_copy_of_one_body_meet(any_site):
    """The daemon derives a missing key as the relay does."""
    daemon = any_site.daemon()
    relay = any_site.relay(upstream=daemon.url)
    load = Load(relay.port, mixed(10, own_keys=False)).run()
    relay.wait_drained()
    for sent in load.sent:
        reply = http.post(daemon.port, sent.request.path, sent.request.body,
                          sent.request.content_type)
        assert reply.status == 200
        assert reply.headers["mcpd-duplicate"] == "3", reply
    Comparison(load.sent, daemon.store()).check()
