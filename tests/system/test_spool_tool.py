# SPDX-License-Identifier: MIT
"""`mcpd spool` shows what waits in a spool that nobody uses, finds damage, and changes nothing."""
import hashlib

from lib.process import run_once
from lib.sender import Load
from lib.telemetry import Request


def fingerprint(folder):
    return {path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def filled(site, count=60):
    relay = site.relay(upstream="http://127.0.0.1:9", spool_max_bytes="4MiB",
                       max_body_bytes="64KiB")
    load = Load(relay.port, (Request("/v1/ingest", b"body %d " % n * 400, "text/plain", key=f"k{n}")
                             for n in range(count)), connections=1).run()
    assert len(load.accepted) == count
    return relay


def spool(relay, *words):
    return run_once("spool", *words, "--spool-dir", relay.spool.parent)


def test_refuses_a_spool_in_use(site):
    relay = filled(site, 3)
    done = spool(relay, "ls")
    assert done.returncode == 2 and "in use" in done.stderr


def test_shows_requests_and_changes_nothing(site):
    relay = filled(site)
    relay.kill9()
    before = fingerprint(relay.spool)
    listing = spool(relay, "ls")
    assert listing.returncode == 0, listing.stderr
    rows = [line.split() for line in listing.stdout.splitlines()[1:]]
    assert sum(int(row[3]) for row in rows) == 60
    assert [row[1] for row in rows][-1] == "open"
    requests = spool(relay, "ls", rows[0][0]).stdout.splitlines()[1:]
    assert len(requests) == int(rows[0][2])
    assert requests[2].split()[1] == "waiting" and requests[2].split()[-2:] == ["k2", "/v1/ingest"]
    assert spool(relay, "cat", f"{rows[0][0]}.2").stdout == "body 2 " * 400
    assert spool(relay, "cat", f"{rows[0][0]}.99999").returncode == 2
    assert spool(relay, "cat", "nonsense").returncode == 2
    assert spool(relay, "dance").returncode == 2
    good = spool(relay, "verify")
    assert good.returncode == 0 and "60 requests" in good.stdout and "0 damaged" in good.stdout
    assert fingerprint(relay.spool) == before


def test_verify_finds_damage(site):
    relay = filled(site)
    relay.stop()
    log = sorted((relay.spool / "seg").glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    bad = spool(relay, "verify")
    assert bad.returncode == 1 and "59 requests" in bad.stdout and "1 damaged" in bad.stdout
