"""`token create` narrows an agent by default, and warns of a token that reaches others' sessions."""

from __future__ import annotations

import json

import pytest

from tests.support.command_line import CommandLine


def test_an_agent_s_token_is_narrow_unless_something_else_is_said(ledger: CommandLine) -> None:
    made = json.loads(ledger("token", "create", "ci", "--role", "agent", "--as", "ann", "--json", code=0).out)
    assert (made["everything"], made["any_project"], made["claimed"], made["owner"]) == (False, False, None, "ann")
    row = ledger("token", "list", code=0).out.splitlines()[-1]
    assert "its own sessions in the first project that it works in" in row
    assert "1 of agents, each for its own sessions" in ledger("doctor").out


def test_everything_is_said_loudly_wherever_the_token_is_met(ledger: CommandLine) -> None:
    made = ledger("token", "create", "board", "--role", "agent", "--everything", code=0)
    assert "WARNING: agent board reads, cancels and closes the sessions of ALL agents in EVERY project" in made.err
    assert "EVERYTHING" in ledger("token", "list", code=0).out
    assert "reach the sessions of ALL others" in ledger("doctor").out
    bound = ledger("token", "create", "b", "--role", "agent", "--everything", "--project", "shop", code=0)
    assert "of ALL agents in shop" in bound.err


def test_where_and_for_whom_an_agent_works_stands_in_its_token(ledger: CommandLine) -> None:
    words = ("--folder", "/srv/shop", "--for", "ann", "--any-project")
    made = json.loads(ledger("token", "create", "ci", "--role", "agent", *words, "--json", code=0).out)
    assert (made["folders"], made["owner"], made["any_project"]) == (["/srv/shop"], "ann", True)


@pytest.mark.parametrize("words", [("--everything",), ("--any-project",), ("--folder", "/srv")])
def test_what_is_said_of_agents_is_refused_for_others(ledger: CommandLine, words: tuple[str, ...]) -> None:
    assert "for tokens of role agent" in ledger("token", "create", "ann", "--role", "approver", *words, code=12).err
    assert "absolute path" in ledger("token", "create", "x", "--role", "agent", "--folder", "srv", code=12).err
