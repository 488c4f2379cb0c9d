"""The commands that explain rules and care for them, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workers.cli.policy.conftest import PolicyLine


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("git log", 0, "allow: it runs without a question"),
        ("git push origin", 3, "deny: it may not run"),
        ("make", 7, "ask: a person must answer first"),
    ],
)
def test_explain_says_the_verdict_and_is_its_exit_code(
    line: PolicyLine, opencode: Path, command: str, code: int, said: str
) -> None:
    ran = line("policy", "explain", command, "--config", opencode, code=code)
    assert ran.out.splitlines()[0] == said


def test_explain_names_the_rule_with_file_and_line_and_what_it_came_before(line: PolicyLine, opencode: Path) -> None:
    ran = line("policy", "explain", "git push origin", "--config", opencode, code=3)
    assert f"bash git push * deny  {opencode}:6" in ran.out
    assert f"  bash git * allow ({opencode}:5): it matches, but `bash git push * deny` decides" in ran.out
    denied = f"it is denied by `bash git push * deny` ({opencode}:6); no rule is suggested that would lift a deny"
    assert denied in ran.out.splitlines()


def test_explain_finds_the_files_that_the_program_itself_finds(line: PolicyLine, claude: Path) -> None:
    ran = line("policy", "explain", "git push", "--dialect", "claude", "--cwd", claude, "--json", code=3)
    settings = {"layer": "project", "file": str(claude / ".claude/settings.json"), "line": 5}
    assert ran.row["rules"] == [{"text": "Bash(git push:*)", **settings}]


def test_explain_reads_the_only_dialect_that_lies_in_the_folder(line: PolicyLine, claude: Path) -> None:
    ran = line("policy", "explain", "git push", "--cwd", claude, code=3)
    assert ran.err == f"info: these are rules of dialect `claude`, in `{claude / '.claude/settings.json'}`\n"
    assert line("policy", "explain", "git push", "--cwd", claude, "--json", code=3).row["rules"][0]["line"] == 5
    assert line("policy", "rules", "--cwd", claude, code=0).out.splitlines()[1].startswith("allow ")
    (claude / "opencode.json").write_text('{"permission": {"bash": "ask"}}')
    assert "dialect `opencode`" in line("policy", "explain", "git push", "--cwd", claude, code=7).err


def test_explain_in_a_folder_of_two_dialects_asks_for_one(line: PolicyLine, claude: Path) -> None:
    (claude / ".codelia").mkdir()
    (claude / ".codelia" / "config.json").write_text('{"permissions": {}}')
    said = line("policy", "explain", "git push", "--cwd", claude, code=12).err
    assert "there are rules of several dialects here (claude, codelia); name one with --dialect" in said


def test_explain_takes_a_tool_with_its_input_or_a_permission_with_patterns(line: PolicyLine, opencode: Path) -> None:
    fetch = ("--tool", "webfetch", "--input", '{"url": "https://example.com"}')
    assert line("policy", "explain", *fetch, "--config", opencode, code=3)
    assert line("policy", "explain", "--permission", "webfetch", "--pattern", "x", "--config", opencode, code=3)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "give COMMAND, or --tool NAME with --input JSON, or --permission NAME with --pattern P"),
        (
            ["ls", "--tool", "x"],
            "give COMMAND, or --tool NAME with --input JSON, or --permission NAME with --pattern P",
        ),
        (["ls", "--input", "{}"], "--input needs --tool NAME"),
        (["--tool", "Bash"], "--tool needs --input JSON"),
        (["--permission", "bash"], "give at least one --pattern PATTERN (`*` is any use of it)"),
    ],
)
def test_a_call_that_is_not_said_is_wrong_usage(line: PolicyLine, words: list[str], error: str) -> None:
    assert f"error: {error}\n" in line("policy", "explain", *words, code=2).err


def test_shell_shows_what_a_line_would_run(line: PolicyLine) -> None:
    ran = line("policy", "shell", "A=1 sudo rm x > log", "--json", code=0)
    assert ran.row["commands"][0] == {
        "text": "A=1 sudo rm x",
        "words": ["sudo", "rm", "x"],
        "assignments": ["A=1"],
        "redirects": [{"operator": ">", "target": "log"}],
        "in": None,
        "form": ran.row["commands"][0]["form"],
    }
    assert [(one["text"], one["in"]) for one in ran.row["commands"]][1] == ("rm x", "A=1 sudo rm x")
    assert (ran.row["plain"], ran.row["reason"]) == (False, "`A=` in front of a command may change what it does")
    assert line("policy", "shell", "ls | wc", code=0).out.splitlines()[0] == "plain"


def test_shell_prints_one_form_for_every_spelling_of_one_meaning(line: PolicyLine) -> None:
    spellings = ("rm -Rf x", "rm --force x -r", "rm --recursive -f -- x", "\\rm -f -r 'x'")
    rows = [line("policy", "shell", one, "--json", code=0).row["commands"][0]["form"] for one in spellings]
    assert rows == [
        {
            "program": "rm",
            "path": [],
            "options": [
                {"name": "--force", "effect": "plain", "value": None},
                {"name": "--recursive", "effect": "plain", "value": None},
            ],
            "operands": [{"text": "x", "kind": rows[0]["operands"][0]["kind"], "known": True}],
            "means": [],
            "unclear": [],
        }
    ] * len(spellings)


def test_shell_says_what_was_not_understood_and_which_program_is_in_no_table(line: PolicyLine) -> None:
    out = line("policy", "shell", "git log --zap && frobnicate x && npx tsc -p .", code=0).out.splitlines()
    assert "  not understood: `--zap` is in no table of `git log`" in out
    assert "`frobnicate x`: no table holds the program `frobnicate`" in out
    ran = line("policy", "shell", "frobnicate x", "--json", code=0)
    assert ran.row["commands"][0]["form"] is None
    form = line("policy", "shell", "npx tsc -p .", "--json", code=0).row["commands"][0]["form"]
    assert (form["runs"], form["inner"]["program"]) == ("tsc -p .", "tsc")


def test_rules_prints_the_rules_in_one_form_with_their_layers(line: PolicyLine, claude: Path) -> None:
    ran = line("policy", "rules", "--dialect", "claude", "--cwd", claude, "--json", code=0)
    assert ran.rows == [
        {"permission": "Bash", "pattern": "git:*", "action": "allow", "layer": "project"},
        {"permission": "Bash", "pattern": "git push:*", "action": "deny", "layer": "project"},
    ]
    shown = line("policy", "rules", "--dialect", "claude", "--cwd", claude, code=0).out
    assert f"{claude}/.claude/settings.json:5" in shown


def test_rules_says_when_there_are_none(line: PolicyLine, tmp_path: Path) -> None:
    ran = line("policy", "rules", "--dialect", "claude", "--cwd", tmp_path, code=0)
    assert ran.out == "there are no rules: claude asks about whatever does more than look\n"
    assert ran.err == "hint: no file of `claude` rules was found here; name one with --config FILE\n"


def test_disabled_lists_the_tools_that_are_wholly_denied(line: PolicyLine, opencode: Path) -> None:
    words = ("policy", "disabled", "--tools", "bash,webfetch", "--config", opencode)
    assert line(*words, "--json", code=0).row == {"disabled": ["webfetch"]}
    assert line(*words, code=0).out == "webfetch\n"


@pytest.mark.parametrize("dialect", ["opencode", "brutus", "betcode", "claude", "codelia"])
def test_remember_shows_choices_as_grants_of_check(line: PolicyLine, tmp_path: Path, dialect: str) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"permission": {"bash": "ask"}}' if dialect in ("opencode", "brutus") else '{"permissions": {}}')
    place = ("--dialect", dialect, "--config", rules)
    rows = line("policy", "remember", "git tag v1.4.0", *place, "--json", code=0).rows
    assert [(one["reach"], one["wide"]) for one in rows] == [("exact", False), ("kind", False)]
    tool = "Bash" if dialect in ("betcode", "claude") else "bash"
    asked = [
        {"tool": tool, "input": {"command": f"git tag {name}"}, "grants": [row]}
        for row in rows
        for name in ("v1.4.0", "v2")
    ]
    verdicts = [line.check(one, options=place).row["verdict"] for one in asked]
    assert verdicts == ["allow", "ask", "allow", "allow"]


def test_remember_leaves_out_what_the_profile_would_not_honour(line: PolicyLine, opencode: Path) -> None:
    words = ("policy", "remember", "rm -rf build && git tag v1", "--config", opencode)
    ran = line(*words, code=0)
    assert "\n  rm -rf build\n" in ran.out
    assert "rm *" not in ran.out


def test_remember_says_what_no_choice_covers(line: PolicyLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"permission": {"bash": "ask"}}')
    ran = line("policy", "remember", "git tag v1 && ls *.py", "--config", rules, code=0)
    assert "still asks: `ls *.py`, which no offered pattern covers" in ran.out


def test_lint_exits_with_11_when_it_finds_something(line: PolicyLine, opencode: Path, claude: Path) -> None:
    assert line("policy", "lint", "--config", opencode, code=0).out == "nothing is wrong with these rules\n"
    settings = claude / ".claude/settings.json"
    settings.write_text('{"permissions": {"allow": [\n"Baash"\n]}}')
    ran = line("policy", "lint", "--dialect", "claude", "--cwd", claude, "--json", code=11)
    assert ran.row == {
        "file": str(settings),
        "line": 2,
        "code": "unknown-tool",
        "severity": "warning",
        "text": "`Baash` is about a tool `Baash`, which claude does not have",
        "fix": "did you mean `Bash`?",
    }


@pytest.mark.parametrize("dialect", ["opencode", "brutus", "betcode", "claude", "codelia"])
def test_lint_without_any_file_is_an_error_that_says_where_it_looked(
    line: PolicyLine, tmp_path: Path, dialect: str
) -> None:
    ran = line("policy", "lint", "--dialect", dialect, "--cwd", tmp_path, "--home", tmp_path / "home", code=12)
    assert ran.out == ""
    assert f"there is no file of `{dialect}` rules here: looked for `{tmp_path}/" in ran.err
    assert "name one with --config FILE" in ran.err


@pytest.mark.parametrize(
    ("dialect", "file", "text"),
    [
        ("opencode", "opencode.json", '{"permission": {"bash": {"git *": "allow"}}}'),
        ("brutus", "opencode.json", '{"permission": {"bash": {"git *": "allow"}}}'),
        ("betcode", "betcode.json", '{"permissions": {"allow": ["Bash(git *)"]}}'),
        ("claude", ".claude/settings.local.json", '{"permissions": {"allow": ["Bash(git *)"]}}'),
        ("codelia", ".codelia/config.json", '{"permissions": {"allow": [{"tool": "bash", "command": "git"}]}}'),
    ],
)
def test_lint_says_which_files_it_found_and_read(
    line: PolicyLine, tmp_path: Path, dialect: str, file: str, text: str
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    ran = line("policy", "lint", "--dialect", dialect, "--cwd", tmp_path, "--home", tmp_path / "home", code=0)
    assert (ran.out, ran.err) == ("nothing is wrong with these rules\n", f"read: {tmp_path / file}\n")


def test_lint_reads_a_file_in_which_the_section_is_misspelt(line: PolicyLine, tmp_path: Path) -> None:
    (tmp_path / "opencode.json").write_text('{"permision": {"bash": "ask"}}')
    ran = line("policy", "lint", "--cwd", tmp_path, "--home", tmp_path / "home", "--json", code=11)
    assert ran.rows[0]["code"] == "unknown-key"


def test_lint_finds_a_comma_that_drops_a_file_and_does_not_read_what_is_not_there(
    line: PolicyLine, tmp_path: Path
) -> None:
    dropped = tmp_path / "dropped.json"
    dropped.write_text('{"permissions": {"allow": ["Read"],}}')
    ran = line("policy", "lint", "--dialect", "claude", "--config", dropped, "--json", code=11)
    assert [(row["code"], row["severity"]) for row in ran.rows] == [("trailing-comma", "error")]
    assert "cannot be read" in line("policy", "lint", "--config", tmp_path / "none.json", code=12).err


def test_test_holds_rules_to_a_table_beside_them(line: PolicyLine, opencode: Path) -> None:
    table = opencode.with_name("table.jsonc")
    rows = {"allow": ["git log"], "deny": [{"tool": "webfetch", "input": {"url": "https://x"}}], "ask": ["git push"]}
    table.write_text(json.dumps({"dialect": "opencode", "rules": "opencode.json", **rows}, indent=1))
    ran = line("policy", "test", table, "--json", code=11)
    assert [(row["text"], row["wanted"], row["verdict"], row["ok"]) for row in ran.rows] == [
        ("git log", "allow", "allow", True),
        ("git push", "ask", "deny", False),
        ("webfetch https://x", "deny", "deny", True),
    ]
    shown = line("policy", "test", table, code=11).out
    assert "table.jsonc:16: `git push` must be ask, and is deny\n  because `bash git push * deny`\n" in shown
    table.write_text(table.read_text().replace('"ask"', '"deny_too"'))
    assert "a table has no member `deny_too`" in line("policy", "test", table, code=12).err


def test_an_option_that_a_dialect_does_not_know_by_value_is_bad_input(line: PolicyLine, opencode: Path) -> None:
    ran = line("policy", "rules", "--config", opencode, "--order", "random", "--json", code=12)
    assert ran.error["code"] == "POLICY"


def test_explain_names_the_demands_on_an_answer(line: PolicyLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    demands = [
        {"permission": "bash", "pattern": "git push *", "approvers": 2, "among": ["ada", "bob"]},
        {"permission": "bash", "pattern": "rm *", "answer_by": "passkey"},
    ]
    rules.write_text(json.dumps({"permission": {"bash": "ask"}, "demands": demands}))
    said = "2 people must approve it, none of them the asker, counting only `ada` or `bob`"
    ran = line("policy", "explain", "git push origin", "--config", rules, code=7)
    assert f"demanded of an answer: {said}" in ran.out.splitlines()
    assert line("policy", "explain", "git push origin", "--config", rules, "--json", code=7).row["demanded"] == [said]
    assert "demanded" not in line("policy", "explain", "git status", "--config", rules, code=7).out
