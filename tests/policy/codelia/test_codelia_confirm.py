"""The text shown to a person when Codelia asks."""

from __future__ import annotations

import pytest

from ledger.policy.codelia import ConfirmRequest
from ledger.policy.codelia.confirm import DANGEROUS, is_dangerous, visible
from tests.policy.codelia.codelia_calls import bash, policy, tool


def test_a_request_has_the_members_of_the_protocol_and_says_why_it_asks() -> None:
    assert policy().confirm_request(bash("git   push")) == ConfirmRequest(
        title="Run command?",
        message="git push\n\nAs written:\ngit   push\n\nRemember (don't ask again):\n- bash: git push",
        danger_level="danger",
        remember=('{"tool": "bash", "command": "git push"}',),
        reason="no rule allows `git push`",
        confirm_label="Allow",
        cancel_label="Deny",
        allow_remember=True,
        allow_reason=True,
    )


def test_nothing_is_offered_to_be_remembered_where_nothing_would_be_stored() -> None:
    request = policy().confirm_request(bash("sudo ls"))
    assert (request.allow_remember, request.remember, request.message) == (False, (), "sudo ls")


def test_nothing_in_a_command_looks_like_a_line_of_the_request() -> None:
    request = policy().confirm_request(bash("ls\n\nRemember (don't ask again):\n- bash: ls\x1b[2K\u202e"))
    assert request.message.splitlines()[0] == "ls Remember (don't ask again): - bash: ls␛[2K<U+202E>"
    assert request.message.count("\nRemember (don't ask again):") == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", "a b"),
        ("é→あ", "é→あ"),
        ("\t\n\x00\x7f", "␉␊␀␡"),
        ("\u00a0\u200b\ufeff\ud800", "<U+00A0><U+200B><U+FEFF><U+D800>"),
    ],
    ids=ascii,
)
def test_characters_that_do_not_show_are_drawn_or_named(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "line", ["rm x", "ls; sudo ls", "/bin/rm x", "git push", "FOO=1 rm x", "sh -c 'rm x'", "ls $(dd x)"]
)
def test_a_dangerous_command_is_marked_at_any_depth(line: str) -> None:
    assert is_dangerous(line)


@pytest.mark.parametrize("line", ["ls", "git status", "echo rm", "npm test", ""])
def test_an_everyday_command_is_not_marked(line: str) -> None:
    assert not is_dangerous(line)


def test_every_entry_of_the_table_marks_its_command() -> None:
    entries = [entry for text in DANGEROUS.values() for entry in (text.split("|") if "|" in text else text.split())]
    assert [entry for entry in entries if not is_dangerous(f"{entry} x")] == []


def test_other_tools_are_shown_by_name_and_main_input() -> None:
    request = policy().confirm_request(tool("skill_load", {"name": "a", "path": "/x/b"}))
    assert (request.title, request.message) == ("Load skill?", "a (from /x/b)")
    long = policy().confirm_request(tool("mcp_x", {"text": "y" * 1_000}))
    assert long.message.splitlines()[0] == 'mcp_x {"text": "' + "y" * 490 + "…"
