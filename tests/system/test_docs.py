# SPDX-License-Identifier: MIT
"""Documents that say what the code says stay true."""
import re

import pytest

from lib.process import ROOT, run_once

DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", ["options", "metrics"])
def test_generated_page_is_up_to_date(page):
    """`make docs` writes them."""
    result = run_once("docs", page)
    assert result.returncode == 0 and result.stdout
    assert (DOCS / f"{page}.md").read_text(encoding="utf-8") == result.stdout, "run `make docs`"


def places_in(page):
    """Every `folder/file.c:function` of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"`([a-z]+/[a-z0-9_]+\.c|mcpd\.c):([a-z0-9_]+)`", text)


def test_every_function_of_the_tour_exists():
    places = places_in("tour.md")
    assert len(places) > 20, "the tour names files and functions"
    wrong = []
    for file, function in places:
        path = ROOT / file
        definition = re.compile(rf"^[a-z][^;=#]*\b{function}\(", re.M)
        if not path.exists() or not definition.search(path.read_text(encoding="utf-8")):
            wrong.append(f"{file}:{function}")
    assert not wrong, f"the tour names what is not there: {wrong}"


def test_links_between_documents_lead_somewhere():
    broken = []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert not broken, broken
