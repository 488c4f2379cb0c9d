"""OpenCode's policy against a slow reference, and the law of the hardened profile: never looser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import Call, Grant, Layer, PolicySource, Rule, Verdict
from ledger.policy.opencode import OpenCodePolicy, child_rules

# --- the reference: lines of bare words, joined by operators; one sentence of the notes at a time ---------------------

FOLDERS = {"/", "/etc", "/repo", "/repo/sub", "/home"}
TWO, THREE = {"git", "npm"}, {("npm", "run"), ("git", "stash")}
FILE_COMMANDS = {"cd", "rm", "cat", "chmod"}


def matches(value: str, pattern: str) -> bool:
    if pattern.endswith(" *") and walk(value, pattern[:-2]):
        return True
    return walk(value, pattern)


def walk(value: str, pattern: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(walk(value[skipped:], pattern[1:]) for skipped in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and walk(value[1:], pattern[1:])


def action(permission: str, text: str, rules: list[Rule]) -> str:
    found = "ask"
    for rule in rules:
        if matches(permission, rule.permission) and matches(text, rule.pattern):
            found = rule.action.value
    return found


def prefix(words: list[str]) -> str:
    if tuple(words[:2]) in THREE:
        return " ".join(words[:3])
    return " ".join(words[: 2 if words[0] in TWO else 1])


def place(word: str) -> str:
    """Return the path that a word names, resolved from /repo."""
    names: list[str] = []
    for name in (word if word.startswith("/") else "/repo/" + word).split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names)


def outside(words: list[str]) -> list[str]:
    found = []
    for word in words[1:] if words[0] in FILE_COMMANDS else []:
        if word.startswith("-") or (words[0] == "chmod" and word.startswith("+")):
            continue
        path = place(word)
        if path == "/repo" or path.startswith("/repo/"):
            continue
        folder = path if path in FOLDERS else path.rpartition("/")[0] or "/"
        found.append("/*" if folder == "/" else folder + "/*")
    return found


Asked = tuple[list[str], list[str], list[str]]


def reference(line: list[list[str]]) -> Asked:
    """Patterns, what always grants, and directories; each once, in order."""
    commands = [words for words in line if words[0] != "cd"]
    patterns = [" ".join(words) for words in commands]
    always = [prefix(words) + " *" for words in commands]
    folders = [folder for words in line for folder in outside(words)]
    return list(dict.fromkeys(patterns)), list(dict.fromkeys(always)), list(dict.fromkeys(folders))


def verdict(permission: str, patterns: list[str], rules: list[Rule], grants: list[Grant]) -> str:
    approved = [Rule(grant.permission, grant.pattern, Verdict.ALLOW) for grant in grants]
    actions = [action(permission, text, rules + approved) for text in patterns]
    return "deny" if "deny" in actions else "ask" if "ask" in actions else "allow"


# --- what is compared -------------------------------------------------------------------------------------------------

names = st.sampled_from(["git", "npm", "rm", "cat", "cd", "ls", "chmod", "sudo", "timeout"])
arguments = st.sampled_from(["run", "stash", "-f", "+x", "a.txt", "sub", "..", "../x", "/etc/hosts", "/etc", "/repo/b"])
commands = st.builds(lambda name, more: [name, *more], names, st.lists(arguments, max_size=3))
lines = st.lists(commands, min_size=1, max_size=4)
permissions = st.sampled_from(["bash", "*", "external_directory", "b*"])
patterns = st.sampled_from(
    ["*", "git *", "git stash *", "rm *", "* -f", "ls", "/etc/*", "npm run *", "cat a.txt", "?d *"]
)
rules = st.lists(st.builds(Rule, permissions, patterns, st.sampled_from(Verdict)), max_size=5)
grants = st.lists(st.builds(Grant, st.just("g"), permissions, patterns), max_size=2)
operators = st.sampled_from([" && ", "; ", " | ", "\n", " || "])
wrappers = st.sampled_from(["sudo {}", "timeout 5 {}", "env A=1 {}", "{} > out", "({})", "{} &", "echo $({})", "! {}"])
STRICTNESS = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]


def policy(ruleset: list[Rule], profile: str) -> OpenCodePolicy:
    facts = dict.fromkeys(FOLDERS, "dir")
    options = {"profile": profile, "cwd": "/repo", "fs": facts}
    return OpenCodePolicy(PolicySource(layers=(Layer("r", rules=tuple(ruleset)),), options=options))


def call(command: str) -> Call:
    return Call("bash", (), "bash", {"command": command})


def strictness(judge: OpenCodePolicy, asked: Call, granted: list[Grant]) -> int:
    judged = judge.evaluate(asked, granted)
    found = [judged, *(judge.evaluate(first, granted) for first in judged.ask_first)]
    return max(STRICTNESS.index(one.verdict) for one in found)


@given(line=lines, operator=operators, ruleset=rules, granted=grants)
def test_a_line_is_asked_and_judged_as_in_the_reference(
    line: list[list[str]], operator: str, ruleset: list[Rule], granted: list[Grant]
) -> None:
    judge = policy(ruleset, "faithful")
    judged = judge.evaluate(call(operator.join(" ".join(words) for words in line)), granted)
    asked, always, folders = reference(line)
    first = [pattern for one in judged.ask_first for pattern in one.patterns]
    assert ([part.text for part in judged.parts], list(judged.always), first) == (asked, always, folders)
    assert judged.verdict.value == verdict("bash", asked, ruleset, granted)
    for one in judged.ask_first:
        expected = verdict("external_directory", list(one.patterns), ruleset, granted)
        assert judge.evaluate(one, granted).verdict.value == expected


@given(line=lines, operator=operators, ruleset=rules, granted=grants)
def test_hardened_is_never_looser_than_faithful(
    line: list[list[str]], operator: str, ruleset: list[Rule], granted: list[Grant]
) -> None:
    asked = call(operator.join(" ".join(words) for words in line))
    found = [strictness(policy(ruleset, profile), asked, granted) for profile in ("faithful", "hardened")]
    assert found[1] >= found[0]


@given(line=lines, more=commands, wrapper=wrappers, ruleset=rules, granted=grants)
def test_a_part_a_wrapper_or_a_redirection_never_loosens_a_hardened_verdict(
    line: list[list[str]], more: list[str], wrapper: str, ruleset: list[Rule], granted: list[Grant]
) -> None:
    judge = policy(ruleset, "hardened")
    texts = [" ".join(words) for words in line]
    before = strictness(judge, call("; ".join(texts)), granted)
    longer = call("; ".join([*texts, " ".join(more)]))
    wrapped = call("; ".join([*texts[:-1], wrapper.format(texts[-1])]))
    assert strictness(judge, longer, granted) >= before
    assert strictness(judge, wrapped, granted) >= before


@given(line=lines, ruleset=rules, grant=st.builds(Grant, st.just("g"), st.just("bash"), patterns))
def test_a_grant_that_lifts_a_recorded_part_is_one_with_which_that_command_is_allowed(
    line: list[list[str]], ruleset: list[Rule], grant: Grant
) -> None:
    judge = policy(ruleset, "hardened")
    for part in judge.evaluate(call("; ".join(" ".join(words) for words in line))).parts:
        if part.verdict is Verdict.ASK and judge.lifts(grant, "bash", part):
            assert judge.evaluate(call(part.text), [grant]).verdict is Verdict.ALLOW


@given(
    parent=rules, own=rules, asked=st.sampled_from(["bash", "task", "todowrite", "external_directory"]), text=patterns
)
def test_a_sub_agent_s_session_never_loosens_what_its_own_rules_and_its_parent_s_session_deny(
    parent: list[Rule], own: list[Rule], asked: str, text: str
) -> None:
    child = child_rules(parent, own)
    denies = [rule for rule in parent if rule.action is Verdict.DENY and rule.permission != "external_directory"]
    assert [rule for rule in child if rule in denies] == denies
    if all(rule.action is Verdict.DENY for rule in child):
        before, after = action(asked, text, own), action(asked, text, [*own, *child])
        assert STRICTNESS.index(Verdict(after)) >= STRICTNESS.index(Verdict(before))
