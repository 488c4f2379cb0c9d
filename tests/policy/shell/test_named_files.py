"""Rules about files against the words of commands: a word that may name the denied file is never simply allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from ledger.policy.shell.files import EXPANSIONS_MAX, LOOKED_UP_MAX, expanded
from tests.support.rows import every

HOME: Final = "/home/ann"
FOLDER: Final = "/home/ann/shop"
FACTS: Final = {
    ".env": "file",
    "innocent.txt": "-> .env",
    "src": "dir",
    "secret": "dir",
    "nearby": "-> secret",
    "far": "-> /srv/data/inner",
    "/srv/data/inner": "dir",
    "/srv/data/key": "-> /home/ann/shop/.env",
    "process": "-> /proc/self",
}
PROGRAMS: Final = ("cat", "shuf", "git", "tool", "cp", "curl", "tar", "cd", "make", "grep", "ls", "echo", "printf")
TOOL_RULES: Final = {
    "permissions": {
        "allow": [f"Bash({program} *)" for program in PROGRAMS],
        "deny": ["Read(.env)", "Edit(.env)", "Read(secret/**)", "Edit(secret/**)"],
    }
}
WILDCARDS: Final = {
    "permission": {
        "bash": {f"{program} *": "allow" for program in PROGRAMS},
        "read": {"*": "allow", "*.env": "deny", "secret/*": "deny"},
        "edit": {"*": "allow", "*.env": "deny", "secret/*": "deny"},
    }
}
CONFIGS: Final[Mapping[str, dict[str, Any]]] = {
    "betcode": TOOL_RULES,
    "claude": TOOL_RULES,
    "opencode": WILDCARDS,
    "brutus": WILDCARDS,
}
DIALECTS: Final = sorted(CONFIGS)


def verdict(dialect: str, command: str) -> Verdict:
    options = {"cwd": FOLDER, "home": HOME, "fs": FACTS}
    policy = compile_policy(PolicySource(dialect, (Layer("r", config=CONFIGS[dialect]),), options))
    tool = "Bash" if dialect in ("betcode", "claude") else "bash"
    return policy.evaluate(Call(tool, (), tool, {"command": command})).verdict


PLACES: Final = (
    "tool {}",
    "cat {}",
    "shuf -n1 {}",
    "git show :{}",
    "git show HEAD:{}",
    "git add -f {}",
    "tar cf - {}",
    "tool -d @{}",
    "tool --data-urlencode x@{}",
    "tool --from-file={}",
    "tool -f{}",
    "tool -sSf{}",
    "tool of={}",
    "tool a:{}:ro",
    "tool 'load_props(\"{}\")'",
    'tool \'["a","{}"]\'',
    "tool a,{}",
    "cp {} x",
    "tool < x {}",
    "grep '' {}",
)
SPELLINGS: Final = (
    ".env",
    "./.env",
    "src/../.env",
    "'.env'",
    ".e''nv",
    ".e*",
    ".[e]nv",
    "?env",
    "/home/ann/shop/.env",
    "~/shop/.env",
    "$HOME/shop/.env",
    "~+/.env",
    "innocent.txt",
    "far/../key",
    "/proc/self/cwd/.env",
    "/proc/1/cwd/.env",
    "process/cwd/.env",
    "secret/key",
    "sec*/key",
    "nearby/key",
    "{.env,a}",
    "{.e,a}nv",
)


@every("dialect", DIALECTS)
@every("place", PLACES)
def test_a_denied_file_is_never_allowed_wherever_a_word_names_it(dialect: str, place: str) -> None:
    allowed = [one for one in SPELLINGS if verdict(dialect, place.format(one)) is Verdict.ALLOW]
    assert allowed == []


@every("dialect", DIALECTS)
@every(
    "command",
    [
        "cd secret && tool key",
        "cd nearby && tool key",
        "cd src && tool ../.env",
        "git -C secret show :key",
        "git -C src -C ../secret log key",
        "make -Csecret -f key",
        "tool --cwd=secret key",
        "tool --prefix secret key",
        "tool file:///home/ann/shop/.env",
        "tool file:///home/ann/shop/%2eenv",
        "tool '*.env'",
        "tar cf - secret",
        "printf '%s' .env | xargs -I{} cat {}",
        "X=.env; tool $X",
        "for f in .en; do tool ${f}v; done",
    ],
)
def test_folders_addresses_and_patterns_lead_to_a_denied_file(dialect: str, command: str) -> None:
    assert verdict(dialect, command) is not Verdict.ALLOW


@every("dialect", DIALECTS)
@every(
    "command",
    [
        "git log -- src/env.ts",
        "ls *.ts",
        "ls src/*.ts",
        "git add -A",
        "tool --env=production",
        "tool environment",
        "tool a.envelope",
        "tool secretary/key",
        "cat README.md",
        "grep -rn environment src",
        "printf '%s' .env",
        "echo secret/key",
        "git commit -m 'Explain the environment, at last'",
    ],
)
def test_words_that_only_look_like_a_denied_file_are_not_asked_about(dialect: str, command: str) -> None:
    assert verdict(dialect, command) is Verdict.ALLOW


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_program_that_is_about_files_is_denied_and_any_other_is_asked(dialect: str) -> None:
    assert verdict(dialect, "cat .env") is Verdict.DENY
    assert verdict(dialect, "tool .env") is Verdict.ASK


def test_a_rule_that_spells_the_command_names_its_file_rightly() -> None:
    config = {"permissions": {"allow": ["Bash(tool .env)"], "deny": ["Read(.env)"]}}
    policy = compile_policy(PolicySource("betcode", (Layer("r", config=config),), {"cwd": FOLDER, "home": HOME}))
    assert policy.evaluate(Call("Bash", (), "Bash", {"command": "tool .env"})).verdict is Verdict.ALLOW


@pytest.mark.parametrize("pattern", ["*", "**", "**/*"])
def test_a_rule_about_every_file_says_nothing_about_a_word(pattern: str) -> None:
    config = {"permissions": {"allow": ["Bash(tool *)"], "deny": [f"Edit({pattern})"]}}
    for dialect in ("betcode", "claude"):
        policy = compile_policy(PolicySource(dialect, (Layer("r", config=config),), {"cwd": FOLDER, "home": HOME}))
        assert policy.evaluate(Call("Bash", (), "Bash", {"command": "tool word"})).verdict is Verdict.ALLOW


@pytest.mark.parametrize("dialect", ["opencode", "brutus"])
@pytest.mark.parametrize("command", ["cp --target-directory=/etc/x a", "cp -t/etc/x a", "head /etc/x", "tool -o/etc/x"])
def test_a_file_outside_is_asked_about_first_whatever_names_it(dialect: str, command: str) -> None:
    config = {"permission": {"*": "allow", "external_directory": "deny"}}
    policy = compile_policy(PolicySource(dialect, (Layer("r", config=config),), {"cwd": FOLDER, "home": HOME}))
    first = policy.evaluate(Call("bash", (), "bash", {"command": command})).ask_first
    assert [policy.evaluate(one).verdict for one in first] == [Verdict.DENY]


def test_a_line_with_more_files_than_are_looked_up_is_asked() -> None:
    words = " ".join(f"f{number}" for number in range(LOOKED_UP_MAX + 1))
    assert verdict("betcode", f"tool {words}") is Verdict.ASK


def test_braces_are_written_out_up_to_a_bound() -> None:
    assert sorted(expanded("{a,b{c,d}}x")) == ["ax", "bcx", "bdx"]
    assert expanded("a{}b") == ("a{}b",)
    assert len(expanded("{a,b}" * 20)) <= EXPANSIONS_MAX


@pytest.mark.parametrize("dialect", ["opencode", "brutus", "claude"])
def test_a_guarded_cd_is_asked_about_behind_a_wrapper_too(dialect: str) -> None:
    assert verdict(dialect, "timeout 5 cd") is Verdict.ASK
