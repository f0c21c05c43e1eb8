# SPDX-License-Identifier: MIT
"""The power fails under load. The spool lies on an ext4 of its own, on a loop device; the relay is
frozen, the device's file is copied as it is at that moment (what was only in the page cache is not
in it), and another relay starts on the copy: every request that was answered with a 2xx must be
delivered. kill -9 cannot show a missing fdatasync, as the page cache outlives the process.

Needs root and loop devices; without them the tests are skipped, with the reason."""
import contextlib
import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from lib.process import Site
from lib.sender import Load
from lib.telemetry import Request
from lib.upstream import Upstream
from lib.wait import wait_until

ROUNDS = int(os.environ.get("MCPD_POWER_CUTS", "10"))
IMAGE_BYTES = 96 << 20
# Small segments, so that every round sees files created, sealed and removed.
OPTIONS = {"spool_max_bytes": "24MiB", "max_body_bytes": "64KiB"}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


@contextlib.contextmanager
def mounted(image, where):
    where.mkdir(exist_ok=True)
    run("mount", "-o", "loop", image, where)
    try:
        yield where
    finally:
        run("umount", "--lazy", where)


def make_image(path):
    with open(path, "wb") as image:
        image.truncate(IMAGE_BYTES)
    # The smallest lazy part: a journal as usual, tables written now.
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", path)


@pytest.fixture(scope="module")
def folder():
    """A folder on a real disk in which an image can be mounted."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="mcpd-power-"))
    try:
        try:
            make_image(base / "try.img")
            with mounted(base / "try.img", base / "try"):
                pass
        except (OSError, FileNotFoundError) as error:
            pytest.skip(f"NO POWER CUT TESTED: no ext4 on a loop device here: {error}")
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def requests(prefix):
    """Bodies of 100 bytes to 20 KiB, each with a key of its own."""
    for number in itertools.count():
        key = f"{prefix}-{number}"
        body = key.encode() + b"x" * (100 + number * 997 % 20000)
        yield Request("/v1/ingest", body, "application/octet-stream", key=key)


def cut(folder, number, binary="mcpd", env=None, upstream_url="http://127.0.0.1:9"):
    """One power cut under load: the keys that were accepted, and the image of the disk."""
    image, copy = folder / f"{number}.img", folder / f"{number}.copy.img"
    make_image(image)
    with mounted(image, folder / f"{number}.disk") as disk, Site(folder / f"site{number}") as site:
        relay = site.relay(spool_dir=disk, binary=binary, env=env, upstream=upstream_url, **OPTIONS)
        load = Load(relay.port, requests(f"r{number}"), connections=8, retry=0)
        load.start()
        wait_until(lambda: len(load.accepted) > 200, 30, lambda: f"load\n{relay.log()}")
        time.sleep(0.05 + number % 7 * 0.03)  # another moment in each round
        relay.pause()
        # Nothing is answered any more; what was answered lies in the sockets or has been read.
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        load.stop_now()
        relay.kill9()
        load.join(60)
        accepted = {sent.request.key: sent.request.body for sent in load.accepted}
    image.unlink()
    return accepted, copy


def deliver(folder, number, image, accepted, before, seconds=60):
    """Starts on what is left of the disk. The keys that never arrive, and the relay's metrics."""
    with mounted(image, folder / f"{number}.after") as disk, \
            Site(folder / f"after{number}") as site, Upstream() as upstream:
        relay = site.relay(spool_dir=disk, upstream=upstream.url, **OPTIONS)
        relay.wait_drained(seconds)
        delivered = {request.key: request.body for request in before + upstream.requests}
        corrupt = relay.metric("mcpd_spool_corrupt_records_total")
        log = relay.log()
    image.unlink()
    changed = [key for key, body in delivered.items() if accepted.get(key, body) != body]
    assert not changed, f"other bytes for {changed[:5]}"
    return accepted.keys() - delivered.keys(), corrupt, log


@pytest.mark.parametrize("number", range(ROUNDS))
def test_accepted_survives_a_power_cut(folder, number):
    """Odd rounds deliver meanwhile, so that acks and removals are cut as well."""
    with Upstream() as upstream:
        url = upstream.url if number % 2 else "http://127.0.0.1:9"
        accepted, image = cut(folder, number, upstream_url=url)
        before = list(upstream.requests)
    missing, corrupt, log = deliver(folder, number, image, accepted, before)
    assert not missing, f"{len(missing)} of {len(accepted)} accepted are gone\n{log}"
    assert corrupt == 0, log


def test_this_test_sees_a_missing_sync(folder):
    """The same with a relay that claims syncs it does not make: requests are lost, or the rounds
    above prove nothing."""
    for number in range(100, 105):
        accepted, image = cut(folder, number, "mcpd-faults", {"MCPD_FSIO": "sync@1+=skip"})
        missing, _, _ = deliver(folder, number, image, accepted, [])
        if missing:
            return
    pytest.fail("five power cuts without any sync lost nothing")
