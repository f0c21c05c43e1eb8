# SPDX-License-Identifier: MIT
"""Programs of others that some tests use: from the machine, or from build/tools, where `make setup`
puts them without installing them."""
import os
import pathlib
import shutil

from lib.process import ROOT, clean_environment

TOOLS = ROOT / "build" / "tools"


def find(name):
    """Its path, or None."""
    for folder in ("usr/bin", "usr/sbin"):
        if (TOOLS / folder / name).exists():
            return str(TOOLS / folder / name)
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


def promtool():
    return find("promtool")


def faketime(offset="+0"):
    """Variables under which a program sees a clock set wrong, but monotonic time as it is; None
    where the library for it is missing."""
    library = "x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
    for folder in (TOOLS / "usr/lib", pathlib.Path("/usr/lib")):
        if (folder / library).exists():
            return {"LD_PRELOAD": str(folder / library), "FAKETIME": offset,
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "ASAN_OPTIONS": "verify_asan_link_order=0"}
    return None


def environment():
    """With the libraries that came along with them."""
    return clean_environment({"LD_LIBRARY_PATH": str(TOOLS / "usr/lib/x86_64-linux-gnu")})
