# SPDX-License-Identifier: MIT
"""The compose file and the image say what they should, where no Docker engine runs as well. Running
them is tests/containers."""
import re
import subprocess

import pytest
import yaml

from lib.process import ROOT, run_once

FILE = ROOT / "compose" / "docker-compose.multi-region.yml"
COMPOSE = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if name != "postgres"}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def options():
    """{--option: default} of docs/options.md."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(--[a-z-]+)`[^|]*\| `\w+` \| [^|]+ \| ([^|]*) \|", page, re.M)
    assert len(rows) > 20
    return {flag: default.strip() for flag, default in rows}


def variables():
    """Every MCPD_ variable of image and compose file that a process sees."""
    image = re.findall(r"\b(MCPD_[A-Z_]+)=", DOCKERFILE)
    return set(image).union(*(one["environment"] for one in OURS.values()))


def test_the_topology_is_the_documented_one():
    assert (ROOT / "deploy" / "docker").resolve() == ROOT / "compose"
    assert (ROOT / "deploy" / "docker" / FILE.name).is_file()
    assert set(SERVICES) == {"postgres", "daemon-a", "daemon-b", "relay"}
    assert [one["command"] for one in OURS.values()] == [["daemon"], ["daemon"], ["relay"]]


def test_each_daemon_can_be_cut_off_alone():
    """From the relay, and from Postgres: each pair that talks has a network of its own."""
    def shared(one, other):
        return set(SERVICES[one]["networks"]) & set(SERVICES[other]["networks"])
    assert shared("relay", "daemon-a") == {"link-a"} and shared("relay", "daemon-b") == {"link-b"}
    assert shared("postgres", "daemon-a") == {"store-a"}
    assert shared("postgres", "daemon-b") == {"store-b"} and not shared("relay", "postgres")


def test_every_variable_is_an_option():
    flags = options()
    for name in variables():
        flag = "--" + name.removeprefix("MCPD_").lower().replace("_", "-")
        known = flag in flags or flag.removesuffix("s") in flags or flag.removesuffix("-file") in flags
        assert known, name


@pytest.mark.parametrize("name", SERVICES)
def test_services_need_no_root_and_write_to_volumes_only(name):
    service = SERVICES[name]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service.get("user") == "postgres" or re.search(r"^USER [1-9]\d*:[1-9]\d*$", DOCKERFILE, re.M)
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), "a demo is for this machine"


@pytest.mark.parametrize("name", OURS)
def test_the_grace_is_longer_than_the_drain(name):
    flags = options()
    drain = seconds(flags["--drain-delay"]) + seconds(flags["--drain-timeout"]) + 5
    assert seconds(SERVICES[name]["stop_grace_period"]) > drain
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE


def test_secrets_are_files_and_images_are_variables():
    for service in SERVICES.values():
        assert re.fullmatch(r"\$\{(MCPD|POSTGRES)_IMAGE:-[a-z0-9:]+\}", service["image"])
        for name, value in service["environment"].items():
            assert not re.search("KEY|PASSWORD|STORE", name) or (name.endswith("_FILE") and
                                                                  value.startswith("/run/secrets/"))
    froms = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert froms == ["${BASE_IMAGE}"] * 2
    script = (ROOT / "compose" / "keys.sh").read_text()
    for secret in COMPOSE["secrets"].values():
        assert f"keep {secret['file'].removeprefix('./secrets/')}" in script


def test_the_relays_upstreams_are_read_as_meant():
    upstreams = OURS["relay"]["environment"]["MCPD_UPSTREAMS"]
    done = run_once("config", env={"MCPD_UPSTREAMS": upstreams})
    assert done.returncode == 0, done.stderr
    assert re.search("^relay .*2 upstream.* in order, http://daemon-a:4317, http://daemon-b:4317;",
                     done.stdout, re.M), done.stdout


def test_the_image_is_built_from_all_that_the_makefile_needs():
    """.dockerignore lets only named things in."""
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.M)
    folders = re.search(r"^DIRS\s*:=(.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert set(allowed) == {"Makefile", "mcpd.c", "tests/setup.sh", *folders}
    subprocess.run(["sh", "-n", ROOT / "compose" / "keys.sh"], check=True)
