"""On the shell a new session is judged by the trusted rules of its folder's project, and by nothing that was changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.stores.embedded import stop
from tests.workers.cli.config.person import Person

STATUS = ("--no-wait", "--json", "bash", "git status")


@pytest.fixture
def strict(person: Person) -> Iterator[Path]:
    """The rule file of a trusted project, which denies `git status`."""
    rules = person.project / "opencode.json"
    rules.write_text(json.dumps({"permission": {"bash": {"*": "allow", "git status*": "deny"}}}))
    person.write('rules = ["opencode.json"]\n')
    person.trust()
    yield rules
    stop(person.home / ".local" / "share" / "permission-ledger")


def loosened(file: Path) -> None:
    file.write_text(json.dumps({"permission": {"bash": "allow"}}))


@pytest.mark.parametrize("command", ["ask", "run"])
def test_a_new_session_has_the_rules_of_the_project_of_its_folder(person: Person, strict: Path, command: str) -> None:
    below = person.project / "src"
    below.mkdir()
    words = ("ask", "ses_1", *STATUS) if command == "ask" else ("run", "ses_1", "--", "git", "status")
    person(*words, code=3, folder=below)
    assert f"project {person.file}" in person("log", "ses_1", "--json", code=0).out
    assert person(*("ask", "ses_2", *STATUS), code=7, folder=person.home).row["outcome"] is None
    loosened(strict)
    refused = person(*words, code=12)
    assert "was changed" in refused.err


def test_a_session_of_a_project_is_judged_by_its_denies_alone_once_it_was_changed(person: Person, strict: Path) -> None:
    person("ask", "ses_1", *STATUS, code=3)
    loosened(strict)
    # From a folder of no project nothing stops the command; the session's rules are compared all the same.
    assert person("ask", "ses_1", *STATUS, code=7, folder=person.home).row["outcome"] is None


def test_rules_that_are_typed_are_compared_too(person: Person, strict: Path) -> None:
    loosened(strict)
    typed = ("--rules", str(strict))
    row = person("ask", "ses_1", *STATUS, *typed, code=7, folder=person.home).row
    assert "was changed since it was trusted" in row["evaluation"]["reason"]
    person.trust()
    assert person("ask", "ses_1", *STATUS, *typed, code=0, folder=person.home).row["outcome"] == "allowed"


def test_policy_explain_reads_the_rules_of_the_trusted_project(person: Person, strict: Path) -> None:
    below = person.project / "src"
    below.mkdir()
    ran = person("policy", "explain", "git status", code=3, folder=below)
    assert ran.err == f"info: these are rules of dialect `opencode`, in `{strict}`\n"
    assert f"{strict}:1" in ran.out
