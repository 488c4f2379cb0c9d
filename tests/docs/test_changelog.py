"""The changelog's newest version is the project's, and says which schemas of the log it writes."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from msgspec import inspect

from ledger.core.codec import FIRST_SCHEMA, SCHEMA_OF, SCHEMA_VERSION
from tests.house.sources import text_of

PAGE: Final = text_of("CHANGELOG.md")
VERSION: Final = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
SECTIONS: Final = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


def test_the_newest_version_is_the_one_of_the_project() -> None:
    headings = [section.partition("\n")[0] for section in SECTIONS]
    assert headings[0] == "Unreleased"
    assert re.fullmatch(re.escape(VERSION) + r" - \d{4}-\d{2}-\d{2}", headings[1])


def test_every_version_says_which_schemas_it_writes() -> None:
    for section in SECTIONS[1:]:
        assert "\n### Log\n" in section


def test_the_log_of_the_unreleased_changes_names_the_schemas_and_their_types() -> None:
    log = " ".join(section.split("\n### Log\n")[1].split("\n### ")[0] for section in SECTIONS[:2])
    log = " ".join(log.split())
    assert f"schema {FIRST_SCHEMA}" in log
    assert f"schema {SCHEMA_VERSION}" in log
    types = [inspect.type_info(one) for one in SCHEMA_OF]
    tags = [one.tag for one in types if isinstance(one, inspect.StructType)]
    assert len(tags) == len(SCHEMA_OF)
    assert [tag for tag in tags if f"`{tag}`" not in log] == []
