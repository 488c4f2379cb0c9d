"""Each defence in SECURITY.md cites a test that shows it, and every file of attacks is cited."""

from __future__ import annotations

import re
from typing import Final

from tests.house.sources import files, shown_by, text_of, written_tests
from tests.support.rows import every

PAGE: Final = "SECURITY.md"
ATTACKS: Final = [file for file in files("tests/attacks") if file.rpartition("/")[2].startswith("test_")]


def test_every_test_that_shows_a_defence_exists() -> None:
    assert shown_by(PAGE) - written_tests() == set()


def test_every_line_on_an_attacker_names_a_test() -> None:
    attackers = text_of(PAGE).split("\n## Who attacks")[1].split("\n## ")[0]
    rows = [line for line in attackers.splitlines() if re.match(r"\| (?!it wants|they want|---)", line)]
    assert [row for row in rows if not re.search(r"`test_\w+` *[|,]", row)] == []
    assert len(rows) > 10


@every("file", ATTACKS)
def test_every_file_of_attacks_is_on_the_page(file: str) -> None:
    assert f"`{file}`" in text_of(PAGE)


def test_every_file_of_attacks_on_the_page_exists() -> None:
    assert set(re.findall(r"`(tests/attacks/\w+\.py)`", text_of(PAGE))) <= set(ATTACKS)
