"""The site is built from docs/ without a broken link, has every page, and asks no other server for anything."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.release_tools import PYTHON, ROOT

PAGES: Final = sorted((ROOT / "docs").rglob("*.md"))
LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source)[^>]*src=[\"']?(https?:)?//|<link[^>]*href=[\"']?(https?:)?//"
)


def built(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a copy of the configuration with these folders."""
    text = (ROOT / "mkdocs.yml").read_text()
    text = text.replace("docs_dir: docs", f"docs_dir: {docs}").replace("site_dir: site", f"site_dir: {site}")
    text = text.replace("scripts/site_hooks.py", str(ROOT / "scripts" / "site_hooks.py"))
    file = site.parent / "mkdocs.yml"
    file.write_text(text)
    command = [str(PYTHON), "-m", "mkdocs", "build", "--strict", "--config-file", str(file)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    done = built(ROOT / "docs", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    names = {str(page.relative_to(ROOT / "docs")).replace("README.md", "index.md") for page in PAGES}
    missing = [name for name in names if not (site / name).with_suffix(".html").exists()]
    assert missing == []
    assert all((site / f"{name}.html").exists() for name in ("SECURITY", "contributing/index", "CHANGELOG"))


def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    assert [page.name for page in site.rglob("*.html") if LOADED.search(page.read_text())] == []
    assert [
        sheet.name for sheet in site.rglob("*.css") if re.search(r"url\([\"']?(https?:)?//", sheet.read_text())
    ] == []


def test_the_search_finds_a_word_of_a_guide(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"] if "config trust" in entry["text"]}
    assert "guides/settings.html" in found


def test_lists_are_lists(site: Path) -> None:
    home = (site / "index.html").read_text()
    assert '<li><a href="guides/first-hour.html">The first hour</a>' in home


def test_a_link_to_nothing_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text("# Home\n\n[gone](gone.md) and [no such part](#nothing)\n")
    done = built(docs, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
