# SPDX-License-Identifier: MIT
"""docs/promises.md names tests that exist, and every row of it names one or says "later"."""
import re

import pytest

from lib.process import ROOT

PAGE = ROOT / "docs" / "promises.md"


def rows():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| sentence"):
            sentence, proof = line.strip("| ").rsplit(" | ", 1)
            yield sentence, proof


def named_tests():
    return sorted({name for _, proof in rows() for name in re.findall(r"`([\w/.]+::\w+)`", proof)})


def test_every_sentence_has_a_proof():
    bare = [sentence for sentence, proof in rows() if "::" not in proof and "later" not in proof]
    assert not bare
    assert len(named_tests()) > 40, "the table was not read"


@pytest.mark.parametrize("name", named_tests())
def test_the_named_test_exists(name):
    file, function = name.split("::")
    path = ROOT / file if "/" in file else ROOT / "tests" / "system" / file
    assert path.exists(), f"{file} is gone"
    assert re.search(rf"^def {function}\(", path.read_text(encoding="utf-8"), re.M), name
