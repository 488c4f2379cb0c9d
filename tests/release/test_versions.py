"""Two versions of the site on one branch: each whole, with the list that the version selector reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.support.release_tools import ROOT, TOOLS

BRANCH: Final = "pages"
SOURCES: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "mkdocs.yml", "scripts")
AUTHOR: Final = {
    f"GIT_{role}_{what}": said
    for role in ("AUTHOR", "COMMITTER")
    for what, said in (("NAME", "ann"), ("EMAIL", "ann@example.com"))
}


class Clone:
    """A clone of this repository with the pages as they are here, and the tools of this checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
        for name in SOURCES:
            if (ROOT / name).is_dir():
                shutil.rmtree(folder / name)
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)
        (folder / TOOLS.parent.name).symlink_to(TOOLS.parent)
        (folder / ".git" / "info" / "exclude").write_text(f"{TOOLS.parent.name}\n")
        for name, value in (("user.name", "ann"), ("user.email", "ann@example.com")):
            self.git("config", name, value)
        self.commit()

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "As it is here")

    def publish(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / "scripts" / "site-version"), *words]
        environment = {**os.environ, **AUTHOR}
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)

    def branch(self) -> str:
        return self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{BRANCH}")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("versions") / "clone")


@pytest.fixture(scope="module")
def published(clone: Clone) -> Path:
    """The files of the branch with the versions 0.1 and 0.2; a page is in the newer one alone."""
    pushed = clone.git("ls-remote", "--heads", "origin")
    first = clone.publish("0.1", BRANCH)
    assert first.returncode == 0, first.stderr
    (clone.folder / "docs" / "guides" / "brand-new.md").write_text("# Brand new\n\n[home](../README.md)\n")
    clone.commit()
    second = clone.publish("0.2", BRANCH)
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines()[1:] == ["0.2 [latest]", "0.1"]
    assert clone.git("ls-remote", "--heads", "origin") == pushed
    folder = clone.folder.parent / "files"
    clone.git("worktree", "add", "--quiet", str(folder), BRANCH)
    return folder


def test_the_version_selector_reads_both_versions_and_which_is_the_latest(published: Path) -> None:
    listed = json.loads((published / "versions.json").read_text())
    assert [(one["version"], one["aliases"]) for one in listed] == [("0.2", ["latest"]), ("0.1", [])]
    for page in ("0.1/index.html", "0.2/index.html"):
        assert '"version": {"provider": "mike"}' in (published / page).read_text()
    assert (published / "latest").resolve() == published / "0.2"
    assert 'url=latest/"' in (published / "index.html").read_text()


def test_each_version_has_its_own_pages_and_search(published: Path) -> None:
    assert [(published / one / "guides" / "brand-new.html").exists() for one in ("0.1", "0.2")] == [False, True]
    found = [(published / one / "search" / "search_index.json").read_text() for one in ("0.1", "0.2")]
    assert ["Brand new" in text for text in found] == [False, True]


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_every_link_of_a_version_leads_to_a_part_of_a_page_of_it(published: Path, version: str) -> None:
    folder = published / version
    pages = {page: Page(page) for page in sorted(folder.rglob("*.html"))}
    assert len(pages) > 60
    broken = [
        f"{page.relative_to(folder)}: {link}" for page, one in pages.items() for link in one.broken(folder, pages)
    ]
    assert broken == []


class Page(HTMLParser):
    """The links of a page, and the parts of it that links can name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.parts: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in {"id", "name"}:
                self.parts.add(value)
            elif name in {"href", "src"}:
                self.links.append(value)

    def broken(self, folder: Path, pages: dict[Path, Page]) -> Iterator[str]:
        """Return the links that lead out of the folder, to no file, or to no part of a page."""
        for link in self.links:
            address, part = urldefrag(link)
            if urlsplit(address).scheme in {"http", "https", "mailto"}:
                continue
            # The page for what is not found is served below any address, so its links begin at the root.
            begin = folder if address.startswith("/") else self.path.parent
            target = (begin / unquote(address).lstrip("/")).resolve() if address else self.path
            target = target / "index.html" if target.is_dir() else target
            is_there = target.is_file() and target.is_relative_to(folder)
            if not is_there or (part and target in pages and unquote(part) not in pages[target].parts):
                yield link


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "`` is not a version"),
        (("../0.3", BRANCH), "`../0.3` is not a version"),
        (("0.3\n0.4", BRANCH), "is not a version"),
        (("--push", BRANCH), "`--push` is not a version"),
        (("0.3", "--push"), "`--push` is not the name of a branch"),
        (("0.3", "a..b"), "`a..b` is not the name of a branch"),
        (("0.3", BRANCH, "0.1"), "`0.1` is not an alias"),
    ],
)
def test_what_is_no_version_changes_nothing(clone: Clone, words: tuple[str, ...], why: str) -> None:
    before = clone.branch()
    done = clone.publish(*words)
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert clone.branch() == before


def test_a_version_is_that_of_a_commit(clone: Clone) -> None:
    before = clone.branch()
    note = clone.folder / "docs" / "unfinished.md"
    note.write_text("# Unfinished\n")
    done = clone.publish("0.3", BRANCH)
    note.unlink()
    assert (done.returncode, "changes without a commit" in done.stderr) == (1, True)
    assert clone.branch() == before


def test_an_older_version_takes_over_no_alias(clone: Clone, published: Path) -> None:
    done = clone.publish("0.0.9", "others", "none")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["0.0.9"]), done.stderr


def test_make_hands_version_branch_and_alias_on() -> None:
    command = [
        "make",
        "--no-print-directory",
        "--dry-run",
        "--old-file=setup-release",
        "site-version",
        "VERSION=0.2",
        "SITE_BRANCH=pages",
    ]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "scripts/site-version '0.2' 'pages' 'latest'"
