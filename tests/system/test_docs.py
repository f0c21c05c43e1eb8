# SPDX-License-Identifier: MIT
"""The generated pages say what the program does: they are what it prints today."""
import pytest

from lib.process import ROOT, run_once


@pytest.mark.parametrize("page", ["options", "metrics", "messages", "attributes", "statuses",
                                  "settings", "where"])
def test_generated_page_is_current(page):
    printed = run_once("docs", page).stdout
    assert printed == (ROOT / "docs" / f"{page}.md").read_text(), "make docs brings it up to date"
