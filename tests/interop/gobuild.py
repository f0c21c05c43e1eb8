# SPDX-License-Identifier: MIT
"""Builds the Go programs of these tests, once for each state of their sources, into build/interop.

The product needs no Go. Where there is no Go, or an older one than a program's go.mod asks for, or
where the public modules cannot be had, NotHere says so and what needs the program is skipped. A
program that does not compile from modules that are there is an error.
"""
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from lib.process import BUILD

HERE = pathlib.Path(__file__).parent
PROGRAMS = {"sdk-sender": HERE / "sdk-sender", "collector": HERE / "collector"}
OUT = BUILD / "interop"
FETCH_SECONDS = 600
BUILD_SECONDS = 1800


class NotHere(Exception):
    """The program cannot be built on this machine, for a reason that is not the program's."""


def _go():
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NotHere("there is no go")
    return go


def _environment():
    """One package at a time: a build must not take the machine from the tests beside it."""
    env = {**os.environ, "GOFLAGS": "-mod=readonly -p=1", "GOTOOLCHAIN": "local",
           "CGO_ENABLED": "0"}
    env.setdefault("HOME", "/root")
    return env


def _run(arguments, folder, seconds):
    return subprocess.run(["nice", _go(), *arguments], cwd=folder, env=_environment(),
                          capture_output=True, text=True, timeout=seconds, check=False)


def _version(text):
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)", text).groups())


def _check_go(folder):
    asked = re.search(r"^go (\S+)", (folder / "go.mod").read_text(), re.M)[1]
    have = subprocess.run([_go(), "env", "GOVERSION"], cwd="/", env=_environment(), text=True,
                          capture_output=True, check=True).stdout.strip()
    if _version(have) < _version(asked):
        raise NotHere(f"{have} is older than go {asked}")
    return have


def _digest(folder, have):
    found = hashlib.sha256(have.encode())
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _fetch(name, folder):
    """Has go fetch the modules that the program's packages come from."""
    try:
        done = _run(["list", "-deps", "."], folder, FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotHere(f"{name}: its modules did not come in {FETCH_SECONDS} s") from None
    if done.returncode != 0:
        raise NotHere(f"{name}: its modules cannot be had: {done.stderr.strip()[-300:]}")


@functools.cache
def program(name):
    """The path of the built program; NotHere, or AssertionError when it does not compile."""
    folder, out = PROGRAMS[name], OUT / name
    have = _check_go(folder)
    OUT.mkdir(parents=True, exist_ok=True)
    stamp = OUT / f"{name}.built"
    with open(OUT / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = _digest(folder, have)
        if out.exists() and stamp.exists() and stamp.read_text() == digest:
            return out
        _fetch(name, folder)
        done = _run(["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(out), "."],
                    folder, BUILD_SECONDS)
        assert done.returncode == 0, f"{name} does not build:\n{done.stderr}"
        stamp.write_text(digest)
    return out


def missing():
    """{program: reason} of what cannot be built here; builds the others."""
    reasons = {}
    for name in PROGRAMS:
        try:
            program(name)
        except NotHere as reason:
            reasons[name] = str(reason)
    return reasons
