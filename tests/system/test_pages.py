# SPDX-License-Identifier: MIT
"""What the written pages name exists: options, metrics, events of the log, other pages. Somebody will
type it in a hurry."""
import re
import subprocess

import pytest

from lib.process import BUILD, ROOT
from lib.tools import promtool

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")])
OPERATORS = [DOCS / name for name in ("running.md", "configuration.md", "relay.md", "upstreams.md",
                                      "daemon.md", "regions.md")]


def read(path):
    return path.read_text(encoding="utf-8")


def anchors(path):
    """As hosts of Markdown make them of headings."""
    heads = re.findall(r"^#+ (.+)$", read(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}: {sorted(anchors(path))}"


def metric_names():
    return set(re.findall(r"^\| `(mcpd_\w+)`", read(DOCS / "metrics.md"), re.M))


@pytest.mark.parametrize("page", OPERATORS, ids=lambda path: path.name)
def test_metrics_exist(page):
    known = metric_names()
    assert len(known) > 30
    for name in re.findall(r"\bmcpd_[a-z_]+[a-z]\b", read(page)):
        bare = re.sub(r"_(bucket|sum|count)$", "", name)
        assert name in known or bare in known, name
    for name in re.findall(r"`([a-z_]+_(?:total|seconds|up))\b", read(page)):
        assert any(one.endswith("_" + name) for one in known) or name in known, name


@pytest.mark.parametrize("page", OPERATORS, ids=lambda path: path.name)
def test_options_exist(page):
    known = set(re.findall(r"`(--[a-z-]+)`", read(DOCS / "options.md")))
    tools = subprocess.run([BUILD / "mcpd", "--help"], text=True, capture_output=True, timeout=30,
                           check=True).stdout
    known |= set(re.findall(r"--[a-z-]+", tools))
    known |= {f"{option}-file" for option in known} | {"--help"}
    for option in re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", read(page)):
        assert option in known, option
    variables = {option.upper().replace("--", "MCPD_").replace("-", "_") for option in known}
    for name in set(re.findall(r"\bMCPD_[A-Z_]+[A-Z]\b", read(page))):
        injected = re.search(r"_(SERVICE_HOST|SERVICE_PORT|PORT)$", name)
        assert name.removesuffix("S") in variables or name in variables or injected or \
            name == "MCPD_SPOL_DIR", name


def test_events_of_the_log_exist():
    sources = "".join(read(path) for folder in ("common", "gateway", "broker", "courier", "store")
                      for path in (ROOT / folder).glob("*.c"))
    families = "settings|upstream|request|spool|disk|http|store|options|courier|gateway|dead"
    for page in OPERATORS:
        for event in re.findall(rf"`((?:{families})\.[a-z_]+)`", read(page)):
            assert f'"{event}"' in sources, f"{page.name}: {event}"


def test_alerts_are_rules_for_prometheus(tmp_path):
    rules = re.search(r"```yaml\n(groups:.*?)```", read(DOCS / "running.md"), re.S).group(1)
    assert rules.count("- alert:") >= 8
    if promtool() is None:
        pytest.skip("NO promtool (`make setup` fetches it): the alerts were not checked with it")
    (tmp_path / "rules.yml").write_text(rules)
    done = subprocess.run([promtool(), "check", "rules", tmp_path / "rules.yml"], text=True,
                          capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tour_names_functions_that_exist():
    named = re.findall(r"`([a-z_]+/[a-z_0-9]+\.[ch]):(\w+)`", read(DOCS / "tour.md"))
    assert len(named) > 30
    for file, function in named:
        assert (ROOT / file).exists(), file
        # a definition begins in the first column, of a table, too
        assert re.search(rf"^[a-z].*\b{function}[(\[]", read(ROOT / file), re.M), f"{file}:{function}"
