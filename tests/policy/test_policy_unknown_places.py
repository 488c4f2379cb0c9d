"""Unknown places count as outside, in every dialect: knowing a home or a folder never makes a verdict stricter."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.policy import strictest
from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from ledger.policy.check_questions import JudgedCall
from ledger.policy.dialects import dialect_named

PATHS: Final = {"bash": {"cat *": "allow", "rm *": "allow", "cd *": "allow"}, "read": "allow", "edit": "allow"}
TOOL_RULES: Final = {
    "permissions": {
        "allow": ["Bash(cat *)", "Bash(rm *)", "Read(src/**)", "Read(~/notes/**)"],
        "deny": ["Read(~/.ssh/**)", "Edit(src/secret)"],
    }
}
COMMANDS: Final = [{"tool": "bash", "command": "cat"}, {"tool": "bash", "command": "rm"}]
CONFIGS: Final[dict[str, Any]] = {
    "opencode": {"permission": {**PATHS, "external_directory": {"~/notes/*": "allow", "~/.ssh/*": "deny"}}},
    "brutus": {"permission": PATHS},
    "claude": TOOL_RULES,
    "betcode": TOOL_RULES,
    "codelia": {"permissions": {"allow": COMMANDS}},
}
FOLDER, HOME = "/home/ann/shop", "/home/ann"
WORDS: Final = (
    "~", "~/x", "~/.ssh/id_rsa", "~/notes/a", "~bob/x", "$HOME/x", "${HOME}", '"$HOME"/x', "x", "src/a", "src/secret",
    "./x", "../x", "/etc/passwd", "/home/ann/.ssh/id_rsa", "/home/ann/shop/src/secret", "/home/ann/shop/src/a",
)  # fmt: skip
LINES: Final = ("cat {}", "rm {}", "cat < {}", "cd {}", "cd {} && cat x", "cat x > {}")


def verdict(dialect: str, profile: str, command: str, *, runs_in: str | None = None, **place: str) -> Verdict:
    source = PolicySource(dialect, (Layer("project", config=CONFIGS[dialect]),), {"profile": profile, **place})
    shell = dialect_named(dialect).language.shell
    call = Call(dialect_named(dialect).shell_permission, (), shell, {"command": command}, runs_in)
    return JudgedCall(compile_policy(source), call).verdict


@pytest.mark.parametrize("dialect", sorted(CONFIGS))
@given(line=st.sampled_from(LINES), word=st.sampled_from(WORDS), profile=st.sampled_from(["hardened", "faithful"]))
def test_a_home_that_is_not_known_is_never_looser_than_any_home(
    dialect: str, line: str, word: str, profile: str
) -> None:
    command = line.format(word)
    unknown = verdict(dialect, profile, command, cwd=FOLDER)
    known = verdict(dialect, profile, command, cwd=FOLDER, home=HOME)
    assert strictest((unknown, known)) is unknown


@pytest.mark.parametrize("dialect", sorted(CONFIGS))
@given(line=st.sampled_from(LINES), word=st.sampled_from(WORDS))
def test_a_folder_that_is_not_known_is_never_looser_than_any_folder(dialect: str, line: str, word: str) -> None:
    command = line.format(word)
    unknown = verdict(dialect, "hardened", command, home=HOME)
    known = verdict(dialect, "hardened", command, home=HOME, cwd=FOLDER)
    assert strictest((unknown, known)) is unknown


@pytest.mark.parametrize("dialect", ["opencode", "brutus", "claude"])
@pytest.mark.parametrize("word", ["~", "~/x", "~bob/x", "$HOME/x", "${HOME}", '"$HOME"/x'])
def test_a_path_below_an_unknown_home_is_outside_the_project(dialect: str, word: str) -> None:
    assert verdict(dialect, "hardened", f"cat {word}", cwd=FOLDER) is Verdict.ASK


@pytest.mark.parametrize("dialect", ["opencode", "brutus", "claude"])
def test_a_relative_path_in_an_unknown_folder_is_not_known_to_be_inside(dialect: str) -> None:
    asked = [verdict(dialect, "hardened", "cat src/a", **place) for place in ({}, {"home": HOME})]
    assert asked == [Verdict.ASK, Verdict.ASK]
    assert verdict(dialect, "hardened", "cat src/a", cwd=FOLDER) is Verdict.ALLOW


@pytest.mark.parametrize("dialect", ["claude", "betcode"])
def test_a_deny_below_an_unknown_home_holds_wherever_the_home_may_be(dialect: str) -> None:
    for path in ("~/.ssh/id_rsa", "/root/.ssh/id_rsa", "/home/ann/.ssh/id_rsa"):
        assert verdict(dialect, "hardened", f"cat {path}", cwd="/srv/shop") is Verdict.DENY


def test_what_lies_below_an_unknown_home_is_shown_as_it_was_written() -> None:
    source = PolicySource("opencode", (Layer("project", config=CONFIGS["opencode"]),), {"cwd": FOLDER})
    found = compile_policy(source).evaluate(Call("bash", (), "bash", {"command": "cat ~/deep/x"}))
    assert [call.patterns for call in found.ask_first] == [("~/deep/*",)]
    claude = PolicySource("claude", (Layer("project", config=TOOL_RULES),), {"cwd": FOLDER})
    other = compile_policy(claude).evaluate(Call("Read", (), "Read", {"file_path": "~/deep/x"}))
    assert (other.verdict, other.parts[0].text) == (Verdict.ASK, "~/deep/x")
    assert "\0" not in repr((found, other))


@pytest.mark.parametrize("dialect", ["claude", "opencode", "brutus"])
def test_the_folder_of_a_call_never_widens_the_project(dialect: str) -> None:
    assert verdict(dialect, "hardened", "cat passwd", cwd=FOLDER) is Verdict.ALLOW
    for folder in ("/etc", "/"):
        assert verdict(dialect, "hardened", "cat passwd", cwd=FOLDER, runs_in=folder) is Verdict.ASK
