"""The page of guarantees names only tests that there are."""

from __future__ import annotations

import re

from tests.house.sources import ROOT, files, text_of

PAGE = ROOT / "docs" / "reference" / "guarantees.md"


def test_every_test_that_shows_a_guarantee_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    written = {name for file in files("tests") for name in re.findall(r"def (test_\w+)\(", text_of(file))}
    assert named - written == set()
    assert len(named) > 10
