"""Everyday lines under the guard of the ledger's own files: reading is never denied, and a glob that may write is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from ledger import Ledger
from ledger.client.machine import DiskFacts
from ledger.core.policy import Call, Evaluation, Layer, PolicySource, Verdict
from ledger.policy.check_questions import with_facts
from ledger.policy.dialects import compile_policy
from tests.policy.dialect_rules import FIVE, FOLDER, allowing, evaluated

DATA: Final = "/home/ann/.local/share/permission-ledger"
FACTS: Final = DiskFacts((DATA,))
RULE: Final = "the ledger guards itself (hardened)"

READING: Final = [
    # searches, whose patterns are no files
    'find . -name "*.json"', "find . -name '*.json' -not -path '*/node_modules/*'", 'find . -iname "*config*"',
    'find src -name "p*"', 'find . -name "*.toml" -newer a', "find . -path '*/.claude/*'", "find . -name opencode.json",
    'find . -name "*.json" -exec grep -l foo {} +', "find . -name '*.json' -exec sh -c 'cat \"$1\" | head -1' _ {} ;", 'find . -name "*.json" | xargs wc -l',
    'find . -name "*.json" -print0 | xargs -0 grep -n foo', 'find . -name "*.json" | head -20', 'find . -name "*.json" | wc -l',
    'grep -rn foo --include="*.json" .', 'grep -rn "opencode.json" docs', "grep foo *.json", 'grep -l "a$" *.toml',
    'rg foo -g "*.json"', 'rg --glob "!*.json" foo src', "rg -l 'settings.json' .claude", "git grep foo -- '*.json'",
    'fd -g "*.json"', "ag foo *.json",
    # version control
    'git diff -- "*.json"', "git diff *.json", "git diff main -- opencode.json", "git diff --stat HEAD~1 -- '*.toml'",
    'git log --oneline -- "*.json"', "git log -p opencode.json", "git log -S'x' -- '*.json'", "git show HEAD:opencode.json",
    'git ls-files "*.json"', "git ls-files '*.json' | wc -l", "git ls-files -- '*settings*'", "git blame .claude/settings.json",
    "git status *.json", "git status .claude/settings.json", "git add *.json", 'git add "*.json"', "git add opencode.json",
    "git add .claude/settings.json .mcp.json", "git commit -m 'Change opencode.json' -- opencode.json",
    'git commit -m "opencode.json"', "git check-ignore -v .claude/settings.local.json", "git shortlog -s -- '*.json'",
    "git branch --list 'p*'", "git tag -l 'p*'",
    # reading, in every dress
    "cat *.json", "cat .claude/settings.json", "cat .claude/*", "ls *.json", "ls p*", "ls -la src/*-*", "ls ./*e*/*.json",
    "head -20 *.json", "tail -n 5 *.toml", "wc -l *.json", "jq . *.json", "jq -r .name opencode.json", "du -sh *.json",
    "sort *.json", "uniq -c a.json", "nl opencode.json", "column -t *.json", "md5sum *.json", "sha256sum opencode.json",
    "diff a.json opencode.json", "stat opencode.json", "file *.json", "sed -n 1,20p *.json", "sed -n '/a/p' opencode.json",
    "awk '{print $1}' *.json", "echo *.json", "echo opencode.json", "printf '%s\\n' *.json", "less opencode.json",
    "base64 opencode.json", "tree -P '*.json'", "python -m json.tool opencode.json", "realpath opencode.json",
    "timeout 5 cat opencode.json", "time git diff -- '*.json'", "sudo cat .claude/settings.json", "env A=1 head opencode.json",
    "nice -n 5 wc -l *.json", "cd src && git diff -- '*.json'", "(git diff -- '*.json')", "cat < opencode.json",
    'for f in $(git ls-files "*.json"); do wc -l "$f"; done', 'for f in *.json; do jq . "$f"; done',
    'if grep -q foo *.json; then git diff -- "*.json"; fi', 'wc -l $(git ls-files "*.json")', "git diff -- '*.json' > out.txt",
    # checks
    'prettier --check "**/*.json"', "prettier -c *.json", 'npx prettier --check "**/*.json"', "pnpm exec prettier --check *.json",
    'eslint "**/*.json"', 'npx eslint "**/*.json"', "biome check *.json", "shellcheck .claude/hooks/*.sh", "mypy p*", "ruff check p*",
    "pytest -k 'p*'", "tsc --project opencode.json --noEmit", "hadolint p*",
]  # fmt: skip
"""None of these changes a file that the ledger guards."""

MAY_WRITE: Final = [
    "cp configs/*.json dist/", "cp -t dist configs/*.json", "mv *.json data/", "rm *.json", "rm -f conf*/*.json", "rm .claude/*",
    "rm -rf .c*", "sed -i s/a/b/ *.json", "sed -i s/a/b/ .claude/settings*.json", "sed -i s/a/b/ .cl*/settings.json",
    'prettier --write "**/*.json"', 'npx prettier -w "**/*.json"', 'eslint --fix "**/*.json"', 'deno fmt "**/*.json"',
    "black .claude/*/*.py", 'git checkout -- "*.json"', 'git checkout main -- "*.json"', 'git restore "*.json"', 'git rm "*.json"',
    "git mv *.json data/", 'git stash push -- "*.json"', 'git clean -fd "*.json"', "tee *.json", "touch *.toml", "chmod 600 *.json",
    "truncate -s 0 *.json", "shred *.json", "ln -s *.json data/", "rsync -a *.json dist/", "tar xf a.tar '*.json'",
    "install -m 600 *.json dist/", "perl -pi -e s/a/b/ *.json", "python fix.py *.json", "unknown-tool *.json", "vim *.json",
    'find . -name "*.json" -delete', 'find . -name "*.json" -exec sed -i s/a/b/ {} +', 'find . -name "*.json" -exec rm {} ;',
    'find . -name "*.json" | xargs sed -i s/a/b/', 'find . -name "*.json" -print0 | xargs -0 rm', "git ls-files '*.json' | xargs rm",
    "git ls-files '*.json' | while read f; do rm \"$f\"; done", 'rm $(git ls-files "*.json")',
    'for f in $(find . -name "*.json"); do sed -i s/a/b/ "$f"; done', 'X=$(git ls-files "*.json"); rm $X', "timeout 5 rm *.json",
    'for f in *.json; do rm "$f"; done', "X=a; rm $X *.json",
    "sudo rm *.json", "sh -c 'rm *.json'", "time -o opencode.j* cat opencode.json", "jq . a > *.json", "cat a | tee *.json",
    "sort a -o *.json", "curl -o *.json https://example.com/a", 'prettier $MODE "**/*.json"', 'git diff "$BASE" -- "*.json"',
]  # fmt: skip

DENIED: Final = [
    # the secrets of the ledger, read or written, by name or glob
    "cat ~/.local/share/permission-ledger/*", "cat ~/.local/share/permission-ledger/gateway-token",
    "cat ~/.local/share/permission-*/gateway.json", "cat ~/.local/share/perm*/*", "cat ~/.local/share/p*/gateway-token",
    "cat ~/.local/share/p*/*.json", "cat ~/.local/share/*/gateway-token", f"cat {DATA}/*", f"cat {DATA}/gateway*",
    "head /home/ann/.local/share/p*/*", "grep -r token ~/.local/share/permission-ledger", "ls ~/.local/share/*ledger*",
    f"find {DATA} -name '*'", "find ~/.local/share/permission-ledger -type f", f"git diff --no-index /dev/null {DATA}/gateway.json",
    f"git add {DATA}/gateway.json", f"cp {DATA}/* .", f"tar czf x.tgz {DATA}", "cd ~/.local/share && cat p*/*.json",
    "cd ~/.local/share/permission-ledger && cat *", f"echo {DATA}/*", f"jq . < {DATA}/gateway.json", f"timeout 5 cat {DATA}/gateway*",
    f"for f in {DATA}/gateway.json; do cat {DATA}/*; done", f"find . -exec cat {DATA}/gateway-token ;", f"prettier --check {DATA}/*.json",
    "zip -r x.zip ~/.local/share", "tar czf x.tgz ~/.local", "rm -rf ~/.local/share", "mv ~/.local x",
    "cat /tmp/permission-ledger-*/server.sock", "redis-cli -s /tmp/p*/server.sock", "ls /tmp/permission-ledger-0*",
    # a guarded file, written by its name
    "sed -i s/a/b/ opencode.json", "cp other.json .claude/settings.json", "cp evil/opencode.json .", "mv opencode.json x",
    "rm .mcp.json", "tee .claude.json", "ln -s opencode.json x", "echo {} > opencode.json", "cat a >> .claude/settings.json",
    "prettier --write opencode.json", "deno fmt opencode.json", "svn update opencode.json", "git checkout -- opencode.json",
    "git restore .claude/settings.json", "git stash push -- opencode.json", "git mv opencode.json x", "touch .codex/hooks.json",
    "find . -name opencode.json -delete", "find . -name opencode.json -exec rm {} ;", "find . -name opencode.json -exec sh -c 'rm \"$1\"' _ {} ;", "find . -name opencode.json | xargs rm",
    "git ls-files opencode.json | xargs sed -i s/a/b/", "rm $(git ls-files opencode.json)", "timeout 5 rm opencode.json",
    "time -o opencode.json cat opencode.json", "sort a -o opencode.json", "curl -o opencode.json https://example.com/a",
    "echo opencode.json | xargs rm", "python edit.py opencode.json", "unknown-tool opencode.json", "rm -rf .claude",
    "F=opencode.json; rm $F", "for f in a opencode.json; do rm $f; done",
    "jq . opencode.json; rm opencode.json", "git diff -- '*.json'; rm opencode.json", "rm *.json; rm opencode.json",
]  # fmt: skip


def judged(dialect: str, line: str, **options: Any) -> Evaluation:
    """Judge a line under rules that allow every command."""
    return evaluated(dialect, line, allowing(dialect), FACTS, **options)


def guards(found: Evaluation) -> bool:
    return RULE in [rule.text for rule in found.rules]


@pytest.mark.parametrize("dialect", FIVE)
def test_reading_is_left_to_the_rules(dialect: str) -> None:
    found = {line: judged(dialect, line) for line in READING}
    assert {line for line, one in found.items() if one.verdict is Verdict.DENY or guards(one)} == set()


@pytest.mark.parametrize("dialect", FIVE)
def test_a_glob_that_may_write_a_guarded_file_is_asked(dialect: str) -> None:
    found = {line: judged(dialect, line) for line in MAY_WRITE}
    asked = (Verdict.ASK, True, Verdict.ASK, False, ())
    said = {
        line: (one.verdict, guards(one), one.parts[-1].verdict, one.parts[-1].liftable, one.always)
        for line, one in found.items()
    }
    assert {line: one for line, one in said.items() if one != asked} == {}


@pytest.mark.parametrize("dialect", FIVE)
def test_the_secrets_of_the_ledger_and_a_write_by_name_are_denied(dialect: str) -> None:
    found = {line: judged(dialect, line) for line in DENIED}
    assert {line for line, one in found.items() if one.verdict is not Verdict.DENY or not guards(one)} == set()


@pytest.mark.parametrize("dialect", FIVE)
def test_a_rule_for_the_programs_allows_it(dialect: str) -> None:
    programs = ("git diff", "ls", "head", "jq", "rm")
    if dialect == "codelia":
        programs = ("git", *programs[1:])
    lines = ("git diff -- '*.json' && rm a.log", "ls p* | head", "jq . *.json")
    found = {line: evaluated(dialect, line, allowing(dialect, programs), FACTS) for line in lines}
    assert {line for line, one in found.items() if one.verdict is Verdict.DENY or guards(one)} == set()


@pytest.mark.parametrize(
    ("dialect", "options"), [("claude", {"mode": "dontAsk"}), ("codelia", {"supports_confirm": False})]
)
def test_where_nobody_is_asked_it_is_denied(dialect: str, options: dict[str, Any]) -> None:
    assert judged(dialect, "git rm '*.json'", **options).verdict is Verdict.DENY
    assert not guards(judged(dialect, "git diff -- '*.json'", **options))


def test_a_line_that_is_asked_anyway_keeps_its_parts_and_offers_nothing() -> None:
    found = evaluated("opencode", "git status; rm *.json", allowing("opencode", ("git status",)), FACTS)
    assert [(part.text, part.verdict) for part in found.parts] == [
        ("git status", Verdict.ALLOW), ("rm *.json", Verdict.ASK), ("git status; rm *.json", Verdict.ASK),
    ]  # fmt: skip
    assert (found.verdict, found.always) == (Verdict.ASK, ())


def tool(name: str, value: dict[str, Any]) -> Verdict:
    source = PolicySource("opencode", (Layer("project", config={"permission": {"*": "allow"}}),), {"cwd": FOLDER})
    policy = with_facts(compile_policy(source), FACTS)
    return policy.evaluate(Call(name, (), name, value, FOLDER)).verdict


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("glob", {"pattern": "**/*.json"}, Verdict.ALLOW),
        ("glob", {"pattern": "p*"}, Verdict.ALLOW),
        ("glob_search", {"pattern": "**/*.json"}, Verdict.ALLOW),
        ("grep", {"pattern": "a$", "glob": "*.json"}, Verdict.ALLOW),
        ("grep", {"pattern": "x", "include": "*-*"}, Verdict.ALLOW),
        ("read", {"filePath": "opencode.json"}, Verdict.ALLOW),
        ("edit", {"filePath": "src/[id]/page.tsx", "newString": "*.json"}, Verdict.ALLOW),
        ("mcp_search", {"pattern": "*.json"}, Verdict.ASK),
        ("mcp_write", {"paths": ["src/*.ts", ".claude/settings*"]}, Verdict.ASK),
        ("glob", {"pattern": "/tmp/p*"}, Verdict.ASK),
        ("glob", {"pattern": f"{DATA}/*"}, Verdict.DENY),
        ("glob", {"pattern": "~/.local/share/perm*/*"}, Verdict.DENY),
        ("grep", {"pattern": "token", "path": "~/.local/share/p*/gateway-token"}, Verdict.DENY),
        ("mcp_write", {"path": "opencode.json"}, Verdict.DENY),
        ("mcp_write", {"paths": ["*.json", "opencode.json"]}, Verdict.DENY),
        ("edit", {"filePath": ".mcp.json"}, Verdict.DENY),
    ],
)
def test_the_same_holds_for_other_tools(name: str, value: dict[str, Any], verdict: Verdict) -> None:
    assert tool(name, value) is verdict


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://") as ledger:
        yield ledger


async def test_no_grant_lifts_the_ask(ledger: Ledger) -> None:
    rules = {"permission": {"*": "allow"}}
    session = await ledger.session("ses_1", project="shop", rules=rules, dialect="opencode", options={"cwd": FOLDER})
    await session.grant("bash", "*", actor="ann")
    asked = await session.submit_tool("bash", {"command": "rm *.json"}, request_id="per_1")
    assert asked.outcome is None
    assert (await session.reply("per_1", "once", actor="ann")).outcome == "allowed"
