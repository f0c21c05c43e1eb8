# SPDX-License-Identifier: MIT
"""What an operator reads of a whole life: with --log-format json one object a line, whatever senders
and upstreams put into it, and never a secret, in the log or anywhere else."""
import json
import re

import pytest

from lib import http
from lib.process import run_once
from lib.upstream import Reply, Upstream
from lib.wait import wait_until

INGEST, UPSTREAM_KEY, SENDERS = "ingest-4d1f6e0b9a", "upstream-77c2a90e51", "sender-0be4f3a886"
WRONG, PASSWORD = "wrong-key-5ae91c20d7", "password-e81b5520aa"
HOSTILE = 'key"}\\{,=$(x)'  # visible ASCII, as an Idempotency-Key may be
NO_TEXT = b'\xff\xfe"}\n\x00{"ts":1}\xc3'  # an upstream's answer
WAIT = 20


def lines(process):
    return [line for line in process.log().splitlines() if line and not line.startswith("--- ")]


def events(process):
    """The log as objects; every line is checked."""
    found = []
    for line in lines(process):
        event = json.loads(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["ts"]), line
        assert event["level"] in ("debug", "info", "warn", "error"), line
        assert re.fullmatch(r"[a-z]+", event["role"]) and re.fullmatch(r"[a-z_.0-9]+", event["event"])
        assert all(isinstance(value, (str, int)) for value in event.values()), line
        found.append(event)
    return found


def wait_event(process, name, **fields):
    def is_there():
        return any(event["event"] == name and fields.items() <= event.items()
                   for event in events(process))
    wait_until(is_there, WAIT, lambda: f"{name} {fields}\n{process.log()}", every=0.05)


def post(process, body=b"{}", key=SENDERS, path="/v1/ingest", **headers):
    return http.post(process.port, path, body,
                     headers={"Authorization": f"Bearer {key}", **headers}, timeout=10)


def live(relay, up, key):
    """Everything that a relay has something to say about."""
    assert post(relay, key=key, **{"Idempotency-Key": HOSTILE}).status == 202
    relay.wait_drained()
    up.next(Reply(400, body=NO_TEXT))
    assert post(relay, b"bad", key, "/a%22%0a", **{"Idempotency-Key": HOSTILE,
                                                    "User-Agent": 'agent "\\ x'}).status == 202
    wait_event(relay, "request.refused", rid=HOSTILE, status=400)
    wait_event(relay, "request.dead", status=400)
    up.always(Reply(503))
    while post(relay, b"x" * 60_000, key).status == 202:
        pass
    wait_event(relay, "upstream.cooled")
    wait_event(relay, "upstream.unreachable")
    wait_event(relay, "spool.state", intake="full")
    http.raw_exchange(relay.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    wait_event(relay, "http.http2")
    assert relay.stop() == 0
    assert [event["event"] for event in events(relay)].count("stopped") == 1


@pytest.fixture(name="up")
def up_():
    with Upstream() as up:
        yield up


def a_relay(site, up, **options):
    return site.relay(upstream=f"{up.url} probe=off", spool_max_bytes="4MiB", max_body_bytes="64KiB",
                      log_format="json", log_level="debug", **options)


def test_a_relays_whole_life_is_json(site, up):
    relay = a_relay(site, up)
    up.stop()
    assert post(relay).status == 202
    wait_event(relay, "upstream.cooled", **{"class": "hard"})
    up.start()
    wait_event(relay, "upstream.recovered")
    live(relay, up, SENDERS)
    order = [event["event"] for event in events(relay)]
    assert order.index("started") < order.index("upstream.cooled") < order.index("stopping") < \
        order.index("stopped")


def test_a_daemons_whole_life_is_json(site):
    keys = [f"shop/in={INGEST}", f"shop/rd={SENDERS}"]
    daemon = site.daemon(ingest_key=keys, log_format="json", log_level="debug")
    assert post(daemon, b'{"events":[]}', INGEST).status in (200, 400)
    assert post(daemon, b"\xff", INGEST).status == 400
    assert post(daemon, key=SENDERS).status == 403
    assert post(daemon, key=WRONG).status == 401
    assert daemon.stop() == 0
    order = [event["event"] for event in events(daemon)]
    assert order[-1] == "stopped" and {"store.open", "started", "stopping"} <= set(order)


def test_text_lines_hold_what_senders_wrote_together(site, up):
    relay = a_relay(site, up)
    relay.stop()
    relay.options["log_format"] = "text"
    relay.log_path.unlink()
    relay.start()
    up.next(Reply(400, body=NO_TEXT))
    assert post(relay, **{"Idempotency-Key": HOSTILE}).status == 202
    wait_until(lambda: "request.dead" in relay.log(), WAIT, relay.log)
    for line in lines(relay):
        assert re.fullmatch(r'\S+Z (debug|info|warn|error) [a-z]+ [a-z_.0-9]+ (-|\S+|"([^"\\]|\\.)*")'
                            r'( [a-z0-9_]+=("([^"\\]|\\.)*"|[^\s"=]*))*', line), line


# --- secrets ---

def everything_said(process, key):
    """All that a process shows to those who may not know its secrets."""
    with open(f"/proc/{process.pid}/cmdline", "rb") as cmdline:
        said = [cmdline.read().decode()]
    for method, path, headers in [
            ("GET", "/metrics", {}), ("GET", "/readyz", {}), ("GET", "/healthz", {}),
            ("POST", "/v1/ingest", {"Authorization": f"Bearer {WRONG}"}),
            ("POST", "/v1/traces", {"x-mcpd-key": WRONG}),
            ("POST", "/v1/traces", {"x-mcpd-key": WRONG,
                                    "Content-Type": "application/x-protobuf"}),
            ("POST", "/v1/ingest", {"Authorization": f"Bearer {key}", "Idempotency-Key": "a b"}),
            ("PUT", "/v1/ingest", {"Authorization": f"Bearer {key}"}),
            ("GET", f"/{key}", {"Authorization": f"Bearer {key}"})]:
        reply = http.request(process.port, method, path, b"{}" if method != "GET" else b"",
                             headers)
        said += [str(reply.status), str(reply.headers), reply.body.decode("latin-1")]
    said.append(process.log())
    return [text.replace(" ".join(process.command()), "") for text in said]


def assert_not_said(texts, *secrets):
    for text in texts:
        for secret in secrets:
            assert secret not in text, text[max(0, text.index(secret) - 300):][:600]


@pytest.mark.parametrize("how", ["flags", "files", "variables"])
def test_keys_are_said_nowhere(site, up, how):
    options, env = {}, {}
    if how == "flags":
        options = {"ingest_key": INGEST, "upstream_key": UPSTREAM_KEY}
    elif how == "variables":
        env = {"MCPD_INGEST_KEYS": INGEST, "MCPD_UPSTREAM_KEY": UPSTREAM_KEY}
    else:
        (site.folder / "in").write_text(INGEST + "\n")
        (site.folder / "up").write_text(UPSTREAM_KEY + "\n")
        options = {"ingest_key_file": "in", "upstream_key_file": "up"}
    relay = a_relay(site, up, env=env, **options)
    said = everything_said(relay, INGEST)
    live(relay, up, INGEST)
    assert all(r.header("Authorization") == f"Bearer {UPSTREAM_KEY}"
               for r in up.requests if r.method == "POST"), "the keys were used"
    said.append("\n".join(lines(relay)))
    config = run_once("config", *relay.command()[2:], env=env, cwd=site.folder)
    assert config.returncode == 0 and "relay" in config.stdout
    said += [config.stdout, config.stderr]
    for words in (["ls"], ["verify"]):
        listed = run_once("spool", *words, "--spool-dir", relay.spool.parent)
        said += [listed.stdout, listed.stderr]
    assert_not_said(said, INGEST, UPSTREAM_KEY, WRONG)


def test_senders_keys_are_passed_on_and_said_nowhere(site, up):
    relay = a_relay(site, up)
    said = everything_said(relay, SENDERS)
    live(relay, up, SENDERS)
    keys = {r.header("Authorization") for r in up.requests if r.body == b"bad"}
    assert keys == {f"Bearer {SENDERS}"}
    said.append("\n".join(lines(relay)))
    segments = run_once("spool", "ls", "--spool-dir", relay.spool.parent).stdout
    said += [segments] + [run_once("spool", "ls", row.split()[0], "--spool-dir",
                                   relay.spool.parent).stdout for row in segments.splitlines()[1:]]
    assert_not_said(said, SENDERS, WRONG)
    for path in relay.spool.rglob("*"):  # where it must be, nobody else can read it
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_password_in_an_upstreams_url_is_refused_unsaid(site):
    url = f"http://user:{PASSWORD}@127.0.0.1:9/x"
    for how in (["--upstream", url], ["--upstream", f"{url} nonsense=1"]):
        done = run_once("relay", "--spool-dir", "s", *how, cwd=site.folder)
        assert done.returncode != 0 and "--upstream-key" in done.stderr
        assert_not_said([done.stdout, done.stderr], PASSWORD)
        shown = run_once("config", *how, cwd=site.folder)
        assert_not_said([shown.stdout, shown.stderr], PASSWORD)


def test_a_daemons_keys_are_said_nowhere(site):
    daemon = site.daemon(ingest_key=[f"shop/in={INGEST}", f"shop/rd={SENDERS}"],
                         log_format="json", log_level="debug")
    said = everything_said(daemon, INGEST)
    assert daemon.stop() == 0
    said.append("\n".join(lines(daemon)))
    config = run_once("config", *daemon.command()[2:], cwd=site.folder)
    assert_not_said(said + [config.stdout, config.stderr], INGEST, SENDERS, WRONG)
