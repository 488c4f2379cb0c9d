"""A file of rules in another agent's words is an error: read as no rules, its denies would be lost without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.policy.dialects import DIALECTS
from workers.bridges.options import read_rules
from workers.transport.place import BridgeError


@pytest.mark.parametrize(
    ("dialect", "below", "should_be"),
    [
        ("claude", "permission", "permissions"),
        ("opencode", "permissions", "permission"),
        ("codelia", "permission", "permissions"),
    ],
)
def test_rules_below_another_languages_member_are_refused_with_both_names(
    tmp_path: Path, dialect: str, below: str, should_be: str
) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({below: {}}))
    with pytest.raises(BridgeError, match=f"`{below}`; in the words of `{dialect}` they stand below `{should_be}`"):
        read_rules(str(file), dialect)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_bridge_reads_the_member_that_the_dialect_reads_and_no_other(tmp_path: Path, dialect: str) -> None:
    section = DIALECTS[dialect].language.section
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({section: {"x": 1}, "token": "secret"}))
    assert read_rules(str(file), dialect) == {section: {"x": 1}}


def test_a_file_without_any_rules_is_read_as_that(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"model": "x"}')
    assert read_rules(str(file), "claude") == {"permissions": {}}
