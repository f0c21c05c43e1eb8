# SPDX-License-Identifier: MIT
"""B6: a relay killed with a million requests waiting is back no later than `cat` has read its files,
and a backlog costs no memory (B5, here with a million)."""
import os
import shutil
import statistics
import time

from cases import Row, Turns, closed_relay, sync_disk
from lib.process import Site
from wrk import wrk

WAITING = 1_000_000
MIB = 1 << 20


def forget_files(folder):
    """Takes the files out of the page cache; both sides read them from the disk."""
    sync_disk()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cat_seconds(folder):
    """What `cat FILES > /dev/null` does, file after file, without a process to start."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    began = time.monotonic()
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        while os.read(descriptor, 128 * 1024):
            pass
        os.close(descriptor)
    return time.monotonic() - began


def fill(relay):
    while (waiting := relay.metric("mcpd_relay_spool_entries")) < WAITING:
        result = wrk(relay.port, 10 if waiting < 0.7 * WAITING else 3)
        if result.refused or result.broken:
            return f"while filling: {result.refused} refused, {result.broken} broken"
    return ""


def restart_seconds(relay):
    began = time.monotonic()
    relay.start(300)
    return time.monotonic() - began


def b6(folder, options):
    ours, cat, memory = [], [], []
    with Site(folder / "backlog") as site:
        relay = closed_relay(site)
        empty_bytes = relay.rss_bytes()
        void = fill(relay)
        waiting = Turns._settled_entries(relay)
        for _ in range(options.rounds):
            relay.kill9()
            forget_files(relay.spool)
            cat.append(cat_seconds(relay.spool))
            forget_files(relay.spool)
            ours.append(restart_seconds(relay))
            found = Turns._settled_entries(relay)
            if found != waiting:
                void += f" {waiting - found:.0f} of {waiting:.0f} are gone after a restart"
            memory.append(relay.rss_bytes() - empty_bytes)
        size = sum(path.stat().st_size for path in relay.spool.rglob("*")) / MIB
    shutil.rmtree(folder / "backlog")
    notes = [f"{waiting:,.0f} waiting, {size:,.0f} MiB; a relay without any takes "
             f"{empty_bytes / MIB:.0f} MiB; start round by round: "
             + ", ".join(f"{seconds:.2f}" for seconds in ours) + " s"]
    return [Row("B6", "kill -9 to ready with a million waiting, against reading the files",
                statistics.median(ours), statistics.median(cat), 1.0, 0.2, unit="s",
                rounds=options.rounds, higher_is_better=False, notes=notes, void=void),
            Row("B5", "memory that a million waiting adds, against 64 MiB",
                max(memory) / MIB, 64, 1.0, 0.25, unit="MiB", rounds=options.rounds,
                higher_is_better=False, void=void)]
