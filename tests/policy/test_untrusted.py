"""Untrusted rules, in every dialect: what they deny stays denied, everything else is asked, and no grant lifts that."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from ledger.core.policy import Call, Grant, Layer, PolicySource, Rule, Verdict
from ledger.policy.dialects import DIALECTS, child_source, compile_policy
from ledger.policy.facts import NoFacts
from ledger.policy.own import guarded
from ledger.policy.stored_rules import digest

LOOSE: dict[str, Any] = {
    "opencode": {"permission": {"*": "allow", "bash": {"*": "allow", "git push*": "deny"}}},
    "brutus": {"permission": {"bash": {"*": "allow", "git push*": "deny"}}},
    "claude": {"permissions": {"allow": ["Bash", "Read"], "deny": ["Bash(git push *)"]}},
    "betcode": {"permissions": {"allow": ["Bash"], "deny": ["Bash(git push *)"]}},
    "codelia": {"version": 1, "permissions": {"allow": [{"tool": "bash"}], "deny": [{"tool": "bash", "command": "git push"}]}},
}  # fmt: skip


def source_of(dialect: str) -> PolicySource:
    return PolicySource(dialect, (Layer("project", config=LOOSE[dialect]),))


def shell(dialect: str, command: str) -> Call:
    tool = DIALECTS[dialect].language.shell
    patterns = (command,) if DIALECTS[dialect].language.last_match else ()
    return Call(DIALECTS[dialect].permission_of(tool), patterns, tool, {"command": command})


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("profile", ["hardened", "faithful"])
def test_only_the_denies_of_untrusted_rules_count(dialect: str, profile: str) -> None:
    trusted = replace(source_of(dialect), options={"profile": profile})
    untrusted = compile_policy(replace(trusted, untrusted="`x.json` was changed"))
    grant = Grant("g", shell(dialect, "ls").permission, "*")
    assert compile_policy(trusted).evaluate(shell(dialect, "ls -l")).verdict is Verdict.ALLOW
    for grants in ((), (grant,)):
        asked = untrusted.evaluate(shell(dialect, "ls -l"), grants)
        assert (asked.verdict, asked.reason, asked.always) == (Verdict.ASK, "`x.json` was changed", ())
        assert {part.verdict for part in asked.parts} == {Verdict.ASK}
        assert not any(untrusted.lifts(grant, "bash", part) for part in asked.parts)
        assert untrusted.evaluate(shell(dialect, "git push origin"), grants).verdict is Verdict.DENY


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_dialects_own_allows_do_not_count_either(dialect: str) -> None:
    untrusted = compile_policy(PolicySource(dialect, untrusted="changed"))
    for tool in ("Read", "read", "list", "todowrite"):
        assert (
            untrusted.evaluate(Call(tool, ("a",), tool, {"file_path": "/p/a", "path": "a"})).verdict
            is not Verdict.ALLOW
        )


def test_the_ledger_guards_itself_under_untrusted_rules_as_well() -> None:
    class Facts(NoFacts):
        own_folders = ("/home/ann/.local/share/permission-ledger",)

    policy = guarded(compile_policy(replace(source_of("claude"), untrusted="changed")), Facts())
    read = Call("Read", (), "Read", {"file_path": f"{Facts.own_folders[0]}/gateway.json"})
    assert policy.evaluate(read).verdict is Verdict.DENY


def test_a_child_of_a_session_with_untrusted_rules_has_them_too() -> None:
    parent = replace(source_of("opencode"), untrusted="changed")
    own = PolicySource("opencode", (Layer("own", rules=(Rule("bash", "*", Verdict.ALLOW),)),))
    for found in (child_source(parent, None, None), child_source(parent, own, None, denies_alone=True)):
        assert found.untrusted == "changed"


def test_untrusted_rules_have_another_digest_and_trusted_ones_the_one_that_they_always_had() -> None:
    source = source_of("opencode")
    assert digest(replace(source, untrusted="changed")) != digest(source)
    assert "untrusted" not in to_builtins(source)
