#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""make bench: what relay and daemon cost against the best that could stand in their place, as a ratio
in one run. Both sides take turns several times, on the same disk, because the machine's own speed
changes from minute to minute; the ratio of the medians is what counts.

    tests/bench/run.sh [B1 B3 ...] [--rounds N] [--seconds N] [--no-doc]
"""
import argparse
import datetime
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(pathlib.Path(__file__).parent)]

import cases  # noqa: E402
import ingest  # noqa: E402
import restart  # noqa: E402

CASES = {**cases.CASES, "B6": restart.b6, "B8": ingest.b8}
# Sections of the page; one is written when all of its cases were run.
SECTIONS = {
    "The relay against the best that could stand in its place": CASES.keys() - {"B8"},
    "B8: the daemon against plain programs that write the same rows": {"B8"},
}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")),
                     platform.machine())
    with open("/proc/meminfo", encoding="utf-8") as info:
        memory = int(info.readline().split()[1]) // (1024 * 1024)
    return f"{os.cpu_count()} × {model}, {memory} GiB, Linux {platform.release()}"


def file_system(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True,
                          check=True).stdout.strip()
    if kind in ("tmpfs", "ramfs", "overlayfs"):
        sys.exit(f"bench: {folder} lies on {kind}; set BENCH_DIR to a folder on a real disk")
    return kind


def probe_sync_ms(folder):
    """The median of a 1 KiB append with fdatasync: what one durable answer costs at least here."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(200):
            begin = datetime.datetime.now()
            os.write(file.fileno(), b"x" * 1024)
            os.fdatasync(file.fileno())
            times.append((datetime.datetime.now() - begin).total_seconds() * 1000)
    return statistics.median(times)


def circumstances(folder):
    return (f"{datetime.date.today()}, {machine()}, {file_system(folder)}; "
            f"1 KiB append + fdatasync {probe_sync_ms(folder):.2f} ms.")


def table(rows):
    lines = ["| what | rounds | ours | against | ratio | at least | aim | |",
             "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| " + " | ".join(row.cells()) + " |")
    return "\n".join(lines)


def notes(rows):
    return "\n".join(f"- {row.name}: {note}" for row in rows for note in row.notes)


HEAD = """# Bench

Written by `make bench` and `make interop`; each figure is the median of rounds in which the two
sides took turns. The machine is shared and its disk virtual: compare the ratios, not the digits.
"""
DOC = ROOT / "docs" / "bench.md"


def write_section(title, rows, context):
    """Replaces one section of docs/bench.md, or adds it; the others stay as they are."""
    sections = {}
    if DOC.exists():
        for part in DOC.read_text(encoding="utf-8").split("\n## ")[1:]:
            name, _, text = part.partition("\n")
            sections[name] = text.strip()
    sections[title] = "\n\n".join(filter(None, [context, table(rows), notes(rows)]))
    DOC.parent.mkdir(exist_ok=True)
    DOC.write_text(HEAD + "".join(f"\n## {name}\n\n{text}\n" for name, text in sections.items()),
                   encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help=" ".join(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--no-doc", action="store_true", help="leave docs/bench.md as it is")
    options = parser.parse_args()
    wanted = options.cases or list(CASES)
    base = os.environ.get("BENCH_DIR", str(ROOT / "build"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=base))
    try:
        context = circumstances(folder)
        print(context)
        rows = []
        for name in wanted:
            print(f"{name} ...", flush=True)
            for row in CASES[name](folder, options):
                row.case = name
                rows.append(row)
        print(table(rows))
        print(notes(rows))
        for title, names in SECTIONS.items():
            if not options.no_doc and names <= set(wanted):
                write_section(title, [row for row in rows if row.case in names], context)
        return 1 if any(row.is_void for row in rows) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
