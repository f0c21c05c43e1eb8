# SPDX-License-Identifier: MIT
"""The images of the compose file. Where no registry can be reached, the base image is made of Debian's
packages, and Postgres's from that. What exists already is used as it is, but for ours, which is built
anew from the sources as they are (with the engine's cache)."""
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import engine
from lib.process import ROOT

HERE = ROOT / "tests" / "containers"
OURS = "mcpd-test"
POSTGRES = "mcpd-test-postgres"


def default_of(file, name):
    """What a variable is where nobody sets it: ARG NAME=value, or ${NAME:-value}."""
    text = (ROOT / file).read_text()
    return re.search(rf"(?:ARG {name}=|\$\{{{name}:-)([\w:./-]+)", text)[1]


def debian_mirror():
    """Where this machine's own packages come from."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm",
         "Component: main", "Created-By: Packages"], capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    return lines[0] if lines else ""


def make_base(name):
    """Debian's smallest system as an image, under half a minute."""
    if shutil.which("debootstrap") is None:
        pytest.skip("THE CONTAINERS WERE NOT TESTED: no registry has the base image, and there is no "
                    "debootstrap to make it (`tests/setup.sh containers`)")
    with tempfile.TemporaryDirectory(prefix="mcpd-base-") as folder:
        mirror = debian_mirror()
        done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", folder,
                               *([mirror] if mirror else [])], capture_output=True, text=True,
                              timeout=600, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar:
            engine.docker("import", "--change", 'CMD ["bash"]', "-", name, stdin=tar.stdout,
                          seconds=300)
        assert tar.returncode == 0


def ensure_base():
    name = default_of("Dockerfile", "BASE_IMAGE")
    if not engine.has_image(name) and not engine.pull(name):
        make_base(name)
    return name


def ensure_postgres(base):
    name = default_of("compose/docker-compose.multi-region.yml", "POSTGRES_IMAGE")
    if engine.has_image(name) or engine.pull(name):
        return name
    engine.build(POSTGRES, HERE / "postgres", "--build-arg", f"BASE_IMAGE={base}")
    return POSTGRES


def ensure_all():
    """(our image, Postgres's)"""
    base = ensure_base()
    with ThreadPoolExecutor() as pool:
        postgres = pool.submit(ensure_postgres, base)
        engine.build(OURS, ROOT, "--build-arg", f"BASE_IMAGE={base}")
        return OURS, postgres.result()
