"""`make pictures` draws every picture that the pages show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.inbox.pictures import draw
from tests.support.command_line import ROOT

PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
WRITTEN: Final = ".svg"
"""The end of pictures that are written by hand."""
PNG: Final = b"\x89PNG\r\n\x1a\n"


def pictures_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
async def test_the_command_draws_every_picture_that_a_page_shows_and_no_other(tmp_path: Path) -> None:
    shown = {name for page in PAGES for name in re.findall(r"images/([\w-]+\.\w+)", page.read_text())}
    assert shown == set(pictures_in(ROOT / "docs" / "images"))
    await draw(tmp_path)
    drawn = pictures_in(tmp_path)
    assert set(drawn) == {name for name in shown if not name.endswith(WRITTEN)}
    assert all(content.startswith(PNG) and len(content) > 10_000 for content in drawn.values())
