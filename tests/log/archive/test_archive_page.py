"""The page of the archive's files: its members are those of the files."""

from __future__ import annotations

import re
from typing import Final

from ledger.log.archive.manifests import ArchivedStream, Manifest
from tests.house.sources import text_of

PAGE: Final = text_of("docs/guides/archive.md")


def test_the_members_of_a_manifest_are_those_of_the_page() -> None:
    members = PAGE.split("\n### Manifest\n")[1]
    named = set(re.findall(r"`(\w+)`", members))
    assert {*Manifest.__struct_fields__, *ArchivedStream.__struct_fields__} <= named
