"""`ask --tool`: a tool call on the command line, with what must be allowed first."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import CommandLine


def test_a_directory_outside_is_asked_first_and_asking_again_goes_on(ledger: CommandLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"permission": {"bash": "allow"}}')
    command = '{"command": "touch /srv/shared/x"}'
    words = ("ask", "ses_1", "--tool", "bash", "--input", command, "--rules", rules, "--id", "r1", "--json")
    first = ledger(*words, "--no-wait", code=7).row
    assert (first["request_id"], first["outcome"]) == ("r1.external_directory", None)
    ledger("reply", "r1.external_directory", "once", code=0)
    own = ledger(*words, code=0).row
    assert (own["request_id"], own["outcome"]) == ("r1", "allowed")


def test_rules_of_another_dialect_judge_a_call_of_its_tools(ledger: CommandLine, tmp_path: Path) -> None:
    rules = tmp_path / "settings.json"
    rules.write_text('{"permissions": {"deny": ["Bash(git push:*)"]}}')
    command = '{"command": "git push"}'
    words = ("ask", "ses_1", "--dialect", "claude", "--rules", rules, "--tool", "Bash", "--input", command, "--json")
    row = ledger(*words, code=3).row
    assert row["message"] == "Permission to use Bash with command git push has been denied."


def test_for_a_tool_the_rules_say_what_an_always_grants(ledger: CommandLine) -> None:
    words = ("ask", "ses_1", "--tool", "bash", "--input", "{}", "--always", "x")
    assert "--always needs PERMISSION and PATTERN" in ledger(*words, code=2).err
