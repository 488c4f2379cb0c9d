"""Hooks of mkdocs. The pages stay as a reader of the repository sees them; the site has no pages of its sources.

A link to a page beside docs/ leads to a page that is added; a link to another file of the repository becomes its text.
A link to nothing stays, and the strict build fails.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
OUTSIDE = {"CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "contributing/README.md", "SECURITY.md": "SECURITY.md"}
"""Pages beside docs/ that become pages of the site, and where they stand there."""
ORIGIN = {page: name for name, page in OUTSIDE.items()}

ORDER = ("Index", "Readme", "Guides", "Reference", "Security", "Contributing", "Changelog")

ITEM = re.compile(r"(?:[-*]|\d+\.) ")
LINK = re.compile(r"(?<!!)\[([^\]\[]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand beside docs/."""
    for name, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_nav(nav: Navigation, config: Any, files: Files) -> Navigation:
    """Order the tabs: what a reader looks for first comes first."""
    nav.items.sort(key=lambda item: ORDER.index(title) if (title := _title(item)) in ORDER else len(ORDER))
    return nav


def _title(item: Any) -> str:
    """Return the name of a folder or file at the top."""
    return str(item.file.name if hasattr(item, "file") else item.title).capitalize()


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Resolve links that lead out of docs/, and set lists and tables apart as CommonMark reads them."""
    name = page.file.src_uri
    return "\n".join(set_apart(LINK.sub(lambda found: resolved(found, name), markdown).splitlines()))


def set_apart(lines: list[str]) -> Iterator[str]:
    """Yield the lines, with an empty one where a list or a table follows a paragraph: mkdocs needs it."""
    before, fence = "", False
    for line in lines:
        fence = fence != line.lstrip().startswith("```")
        begins = ITEM.match(line) or line.startswith("|")
        goes_on = ITEM.match(before) or before.startswith(("|", " ")) or not before.strip()
        if begins and not goes_on and not fence:
            yield ""
        yield line
        before = line


def resolved(found: re.Match[str], page: str) -> str:
    """Return a link of a page as the site has it."""
    text, target, anchor = found[1], found[2], found[3] or ""
    folder = posixpath.dirname(ORIGIN.get(page, f"{DOCS}/{page}"))
    path = posixpath.normpath(posixpath.join(folder, target))
    if not (ROOT / path).exists():
        return found[0]
    inside = posixpath.relpath(path, DOCS) if path.split("/")[0] == DOCS else OUTSIDE.get(path)
    if inside is None:
        return text
    return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"
