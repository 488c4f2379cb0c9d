"""Citations in docstrings and comments resolve inside the repository: sections of specifications, pages of `docs/`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from tests.house.sources import PACKAGES, files, text_of

PAGE: Final = text_of("docs/contributing/specs.md")
SPECIFICATIONS: Final = r"(?:opencode-zh|opencode|brutus|betcode|codelia)\.md"
SECTIONS: Final = re.findall(rf"^## ({SPECIFICATIONS})$(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
ROW: Final = re.compile(r'^- \*\*(.+?)\*\*: <a id="([a-z0-9-]+)"></a>\S', re.MULTILINE)
RULE: Final = re.compile(r'^- <a id="([a-z0-9-]+)"></a>\*\*(.+?)\*\*: \S', re.MULTILINE)


def title_of(heading: str) -> str:
    """Return how the code cites a heading of a list: by its number, else by its words without what is in parentheses."""
    number = re.match(r"(\d[\d.]*?)\.? ", heading)
    return number[1] if number else re.sub(r" \(.*\)$", "", heading)


TITLES: Final = {
    (document, title): anchor
    for document, body in SECTIONS
    for title, anchor in [
        *((title_of(heading), anchor) for heading, anchor in ROW.findall(body)),
        *((title, anchor) for anchor, title in RULE.findall(body)),
    ]
}

NAME: Final = re.compile(rf"(?<![\w/.*-])({SPECIFICATIONS})`?(?:'s)?")
QUOTED: Final = re.compile(r',? "([^"]+)"')
CODE: Final = re.compile(r",? `([^`]+)`")
NUMBERS: Final = re.compile(r",?(?: section)? (\d[\d.]*(?:(?:, | and )\d[\d.]*)*)")
GO_FILE: Final = re.compile(r",? (\w+\.go)\b")
WORDS: Final = re.compile(rf", (?!or |and |with |{SPECIFICATIONS})([A-Za-z][\w .]*)")


def sections_of(rest: str) -> list[str]:
    """The sections that the text after a specification's name cites; none where it cites the whole document."""
    for form in (QUOTED, CODE, GO_FILE, WORDS):
        if found := form.match(rest):
            return [re.sub(r" \(.*\)$", "", found[1]).rstrip(" .")]
    found = NUMBERS.match(rest)
    return [number.rstrip(".") for number in re.split(r", | and ", found[1])] if found else []


def citations(text: str) -> Iterator[tuple[str, str]]:
    for found in NAME.finditer(text):
        for section in sections_of(text[found.end() :]):
            yield found[1], section


def prose_of(file: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring and comment, on one line."""
    for token in tokenize.generate_tokens(io.StringIO(text_of(file)).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], " ".join(token.string.strip('"# ').split())


def resolves(document: str, section: str) -> bool:
    if section.endswith("…"):
        return any(name == document and title.startswith(section.rstrip("… ")) for name, title in TITLES)
    return (document, section) in TITLES


@cache
def prose() -> list[tuple[str, int, str]]:
    return [(file, line, text) for file in files(*PACKAGES) for line, text in prose_of(file)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(`betcode.md`, activity extends TTL).", [("betcode.md", "activity extends TTL")]),
        ('`opencode.md` "Core Data Structures", `brutus.md` types.go;', ["Core Data Structures", "types.go"]),
        ("`codelia.md` section 8", [("codelia.md", "8")]),
        ("(codelia.md 3.2, 6.2 and 6.3)", ["3.2", "6.2", "6.3"]),
        ("(brutus.md, `Ask`), hardened", [("brutus.md", "Ask")]),
        ("(opencode-zh.md 4 and 9, opencode.md)", ["4", "9"]),
        ("allow rules of `.opencode/plans/*.md`", []),
        ("`opencode.md` or `current`", []),
    ],
)
def test_a_citation_is_read_as_it_is_written(text: str, expected: list[tuple[str, str] | str]) -> None:
    found = list(citations(text))
    assert [cited if isinstance(expected[at], tuple) else cited[1] for at, cited in enumerate(found)] == expected


def test_each_section_that_the_code_cites_is_on_the_page_of_specifications() -> None:
    cited_here = [
        (f"{file}:{line}", document, section) for file, line, text in prose() for document, section in citations(text)
    ]
    assert len(cited_here) > 50
    assert [cited for cited in cited_here if not resolves(cited[1], cited[2])] == []


def test_each_cited_section_has_an_anchor_of_its_own() -> None:
    assert len(set(TITLES.values())) == len(TITLES) == PAGE.count("<a id=")


def test_each_page_that_the_code_cites_exists() -> None:
    pages = [
        (f"{file}:{line}", page)
        for file, line, text in prose()
        for page in re.findall(r"`((?:docs|workers|ledger|tests|examples)/[\w/.-]+\.md)`", text)
    ]
    assert len(pages) > 5
    existing = set(files("docs", "workers", "ledger", "tests", "examples", suffix=".md"))
    assert [cited for cited in pages if cited[1] not in existing] == []
