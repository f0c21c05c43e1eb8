# SPDX-License-Identifier: MIT
"""Programs of others that some tests use: from the machine, or from build/tools, where `make setup`
puts them without installing them."""
import os
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


def environment():
    """With the libraries that came along with them."""
    return clean_environment({"LD_LIBRARY_PATH": str(TOOLS / "usr/lib/x86_64-linux-gnu")})
