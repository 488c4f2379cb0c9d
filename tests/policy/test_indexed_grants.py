"""Grants that are found by an index: every dialect gives the same evaluation as it does with a walk over all grants."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.client.policies import RememberingPolicy
from ledger.core.events import Actor
from ledger.core.grants import Grants, PatternIndex, StandingGrant
from ledger.core.policy import Call, ConsultedFile, Evaluation, Grant, Layer, Policy, PolicySource
from ledger.core.standing import Standing, as_policy_grants
from ledger.policy.checks import MappedFacts
from ledger.policy.dialects import DIALECTS, compile_policy
from ledger.policy.matching import compile_wildcard
from ledger.policy.offers import offers
from ledger.session.state import without_facts

ANN: Final = Actor("user", "ann")
FOLDER, HOME = "/home/ann/shop", "/home/ann"

WORDS: Final = (
    "git", "push", "pull", "npm", "run", "test-1", "test-17", "x", "-m", "a.txt", "src/a.py", "/etc/passwd", "\u212a8s",
    "k8s", "é", "caf\u00e9", "'git'", '"a b"', "g'i't", "$HOME", "timeout", "5", "\\$", "env", "A=1", "C:\\x", "b?", "*",
)  # fmt: skip
lines = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
joined_lines = st.lists(lines, min_size=1, max_size=3).flatmap(
    lambda found: st.sampled_from([" && ", " | ", "; ", " > ", "\n"]).map(lambda between: between.join(found))
)
globs = st.builds(
    lambda line, ending: line + ending, lines, st.sampled_from(["", "", " *", "*", ":*", "?", "[ab]", "\\*"])
) | st.sampled_from(["*", "", "* *", "?", "*push", "git*push", "gi? push", "{a,b}", "[g]it push", "GIT *"])
paths = st.sampled_from(
    ["a.txt", "src/a.py", "/etc/passwd", f"{FOLDER}/src/a.py", f"{HOME}/notes/b.md", "../x", "src/[a].py", "src/K8s"]
)
path_globs = paths | st.sampled_from(
    ["src/**", "**/*.py", "*.py", "//etc/**", "~/notes/**", "/src/**", f"/{FOLDER}/src/*", "src/\\[a].py", "src/?.py"]
)
hosts = st.sampled_from(
    ["example.com", "api.example.com", "b\u00fccher.de", "EXAMPLE.com", "ex%61mple.com", "127.0.0.1"]
)
FILE_TOOLS: Final = ("Read", "Edit", "Write", "MultiEdit", "Grep", "Glob", "read", "edit", "list", "external_directory")
OTHER_TOOLS: Final = ("Task", "Agent", "mcp__github__push", "mcp__git", "TodoWrite", "webfetch", "fetch", "skill_load")
tools = st.sampled_from(("Bash", "bash", *FILE_TOOLS, "WebFetch", *OTHER_TOOLS))


@st.composite
def json_rules(draw: st.DrawFn) -> str:
    members = [("tool", draw(st.sampled_from(["bash", "shell", "skill_load", "web_fetch"])))]
    if draw(st.booleans()):
        name = draw(st.sampled_from(["command", "command_glob", "skill_name"]))
        members.append((name, draw(globs | st.sampled_from(["review-code", "Review-Code"]))))
    if draw(st.integers(0, 9)) == 0:
        members.append(("command", draw(lines)))
    escape = draw(st.booleans())
    quoted = [(name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in members]
    text = "{" + ", ".join(f'"{name}": "{value}"' for name, value in quoted) + "}"
    return text.replace("git", "gi\\u0074") if escape and draw(st.integers(0, 4)) == 0 else text


patterns = st.one_of(
    globs,
    lines,
    path_globs,
    st.builds("{}({})".format, tools, globs | path_globs),
    st.builds("WebFetch(domain:{})".format, hosts | st.sampled_from(["*.example.com", "*"])),
    st.builds("{}({})".format, st.sampled_from(["Task", "Agent"]), st.sampled_from(["reviewer", "run:true"])),
    tools,
    st.sampled_from(["mcp__github__*", "mcp__github", "mcp__*", "https://example.com/*", "review-code"]),
    json_rules(),
)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    tool = draw(tools)
    named: Any = draw(
        st.one_of(
            st.builds(lambda line: {"command": line}, joined_lines),
            st.builds(lambda path: {"file_path": path, "filePath": path, "path": path, "content": "x"}, paths),
            st.builds(lambda host: {"url": f"https://{host}/x"}, hosts),
            st.sampled_from([{"subagent_type": "reviewer", "run": True}, {"name": "review-code"}, {}, None]),
        )
    )
    if draw(st.booleans()):
        return Call(tool, tuple(draw(st.lists(lines | paths | joined_lines, max_size=2))), cwd=FOLDER)
    return Call(DIALECTS[draw(st.sampled_from(sorted(DIALECTS)))].permission_of(tool), (), tool, named, FOLDER)


@st.composite
def granted(draw: st.DrawFn) -> list[StandingGrant]:
    made = draw(st.lists(st.tuples(tools | st.sampled_from(["*", "ba*"]), patterns), max_size=12))
    return [
        StandingGrant(
            grant_id=f"grn_{version}",
            permission=permission,
            pattern=pattern,
            scope="session",
            by=ANN,
            at_ms=0,
            version=version,
        )
        for version, (permission, pattern) in enumerate(made, 1)
    ]


def indexed(grants: list[StandingGrant]) -> Standing:
    half = len(grants) // 2
    return Standing((Grants.of(grants[:half]), Grants.of(grants[half:])), now_ms=0)


CONFIGS: Final[dict[str, Any]] = {
    "opencode": {"permission": {"bash": {"npm run *": "deny", "ls *": "allow"}}},
    "brutus": {"permission": {"bash": {"npm run *": "deny", "ls *": "allow"}}},
    "claude": {"permissions": {"deny": ["Bash(npm run *)"], "allow": ["Bash(ls *)"]}},
    "betcode": {"permissions": {"deny": ["Bash(npm run *)"], "allow": ["Bash(ls *)"]}},
    "codelia": {"permissions": {"deny": [{"tool": "bash", "command": "npm run"}]}},
}


LINKS: Final[tuple[dict[str, str], ...]] = (
    {},
    {FOLDER: "-> /srv/shop"},
    {"a.txt": "-> /etc/passwd", "src": "-> ../notes"},
    {"src/a.py": "-> src/K8s", "/etc": "-> /private/etc"},
)


def policy_of(dialect: str, profile: str) -> Policy:
    options = {"profile": profile, "cwd": FOLDER, **({} if dialect == "codelia" else {"home": HOME})}
    return compile_policy(PolicySource(dialect, (Layer("project", config=CONFIGS[dialect]),), options))


POLICIES: Final = {
    (dialect, profile): policy_of(dialect, profile) for dialect in CONFIGS for profile in ("hardened", "faithful")
}


def test_every_dialect_is_tried() -> None:
    assert set(CONFIGS) == set(DIALECTS)


@pytest.mark.parametrize(("dialect", "profile"), POLICIES)
@settings(max_examples=60)
@given(call=calls(), grants=granted())
def test_indexed_grants_give_the_same_evaluation_as_a_walk(
    dialect: str, profile: str, call: Call, grants: list[StandingGrant]
) -> None:
    policy = POLICIES[dialect, profile]
    walked = [one.as_policy_grant() for one in grants]
    found = as_policy_grants(indexed(grants))
    evaluation = policy.evaluate(call, walked)
    assert policy.evaluate(call, found) == evaluation
    assert offers(policy, call, evaluation, (), found) == offers(policy, call, evaluation, (), walked)


@pytest.mark.parametrize("dialect", CONFIGS)
@settings(max_examples=30)
@given(
    asked=st.lists(calls(), min_size=1, max_size=2),
    grants=granted(),
    steps=st.lists(st.integers(0, 12), max_size=6),
    links=st.sampled_from(LINKS),
)
def test_a_remembered_evaluation_is_that_of_the_grants_of_now(
    dialect: str, asked: list[Call], grants: list[StandingGrant], steps: list[int], links: dict[str, str]
) -> None:
    policy = POLICIES[dialect, "hardened"]
    remembering = RememberingPolicy(policy, MappedFacts(links, FOLDER))
    for count in (0, *steps, len(grants)):
        some = grants[:count]
        for call in asked:
            walked = RememberingPolicy(policy, MappedFacts(links, FOLDER)).evaluate(
                call, [one.as_policy_grant() for one in some]
            )
            found = remembering.evaluate(call, as_policy_grants(indexed(some)))
            assert without_facts(found) == without_facts(walked)
            # A walk also looks at files for the sake of grants that are about something else.
            assert files_of(found) <= files_of(walked)


def files_of(evaluation: Evaluation) -> set[ConsultedFile]:
    return set() if evaluation.facts is None else set(evaluation.facts.files)


@settings(max_examples=200)
@given(
    patterns=st.lists(globs | lines | patterns, min_size=1, max_size=10),
    text=joined_lines,
    gone=st.sets(st.integers(0, 9)),
)
def test_every_pattern_that_matches_a_text_is_found_by_it(patterns: list[str], text: str, gone: set[int]) -> None:
    index = PatternIndex()
    for number, pattern in enumerate(patterns):
        index = index.add(str(number), pattern)
    for number in gone:
        index = index.discard(str(number))
    found = list(index.about((text,)))
    assert len(found) == len(set(found))
    matching = {
        str(number) for number, pattern in enumerate(patterns) if number not in gone and compile_wildcard(pattern)(text)
    }
    assert matching <= set(found)


def test_a_grant_is_filed_under_the_rarest_of_its_words() -> None:
    index = PatternIndex()
    for number in range(1_000):
        index = index.add(str(number), f"git push origin branch-{number} *")
    found = list(index.about(("git push origin branch-17 --force",)))
    assert "17" in found
    assert len(found) < 10, "only the first ones are filed under words that all have"


def test_a_pattern_without_a_word_may_match_every_text() -> None:
    index = PatternIndex().add("1", "*").add("2", "*push").add("3", "[g]it")
    assert set(index.about(("",))) == {"1", "2", "3"}


def test_grants_behind_others_are_judged_with_them() -> None:
    policy = POLICIES["opencode", "hardened"]
    both = as_policy_grants(indexed([])) or ()
    call = Call("bash", ("git push",), cwd=FOLDER)
    allowed = policy.evaluate(call, (*both, Grant("grn_1", "bash", "git *")))
    assert [part.grants for part in allowed.parts] == [("grn_1",)]
