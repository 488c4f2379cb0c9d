"""The changelog's newest version is the project's, and says which schema of the log it writes."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from ledger.core.codec import SCHEMA_VERSION
from tests.house.sources import text_of

PAGE: Final = text_of("CHANGELOG.md")
VERSION: Final = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
SECTIONS: Final = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


def test_the_newest_version_is_the_one_of_the_project() -> None:
    heading = SECTIONS[0].partition("\n")[0]
    assert re.fullmatch(re.escape(VERSION) + r" - (unreleased|\d{4}-\d{2}-\d{2})", heading)


def test_the_newest_version_says_which_schema_it_writes() -> None:
    assert f"Schema {SCHEMA_VERSION}." in SECTIONS[0].split("\n### Log\n")[1].split("\n### ")[0]
