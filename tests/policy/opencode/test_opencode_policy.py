"""Profiles, grants, built-in layers, sections and sub-agents of the opencode dialect."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.policy import Call, Evaluation, Grant, Layer, Part, PolicyError, PolicySource, Rule, RuleRef, Verdict
from ledger.policy.opencode import (
    ACTION_ONLY,
    PERMISSIONS,
    OpenCodePolicy,
    child_rules,
    permission_of,
    unknown_permissions,
)
from ledger.policy.opencode.layers import OWN_AGENTS, Folders, agent_rules
from ledger.policy.opencode.policy import AGENTS_COUNT

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
GIT: dict[str, Any] = {"*": "ask", "git *": "allow", "git push --force *": "deny"}


def policy(*layers: Layer, **options: Any) -> OpenCodePolicy:
    return OpenCodePolicy(PolicySource(layers=layers, options={"cwd": "/repo", "home": "/home/ann", **options}))


def bash_rules(rules: Any, **options: Any) -> OpenCodePolicy:
    return policy(Layer("project", config={"permission": {"bash": rules}}), **options)


def bash(command: str) -> Call:
    return Call("bash", (), "bash", {"command": command})


def ref(text: str) -> RuleRef:
    return RuleRef(text, "project")


def verdicts(judge: OpenCodePolicy, *commands: str, grants: tuple[Grant, ...] = ()) -> list[Verdict]:
    return [judge.evaluate(bash(command), grants).verdict for command in commands]


# --- profiles ---------------------------------------------------------------------------------------------------------


def test_a_line_is_judged_by_each_of_its_commands_and_says_what_always_would_grant() -> None:
    allow, deny = ref("bash git * allow"), ref("bash git push --force * deny")
    judged = bash_rules(GIT).evaluate(bash("cd sub && git status && git push --force x"))
    message = (
        "The user has specified a rule which prevents you from using this specific tool call. "
        'Here are some of the relevant rules [{"permission":"bash","pattern":"*","action":"ask"},'
        '{"permission":"bash","pattern":"git *","action":"allow"},'
        '{"permission":"bash","pattern":"git push --force *","action":"deny"}]'
    )
    parts = (Part("git status", ALLOW, (allow,)), Part("git push --force x", DENY, (deny,), liftable=False))
    assert judged == Evaluation(DENY, parts, (deny,), message, None, ("git status *", "git push *"))


def test_the_command_that_a_wrapper_hides_is_named_with_what_hides_it() -> None:
    judged = bash_rules({"*": "allow", "rm *": "deny"}).evaluate(bash("sudo rm x"))
    denied = ref("bash rm * deny")
    assert (judged.verdict, judged.rules, judged.message) == (DENY, (denied,), "Denied by rule: bash rm * deny")
    assert Part("rm x", DENY, (denied,), liftable=False, inside="sudo rm x") in judged.parts


def test_a_line_that_is_not_plain_is_asked_and_says_why() -> None:
    judged = bash_rules({"*": "allow"}).evaluate(bash("echo `date`"))
    assert (judged.verdict, judged.parts[0].liftable) == (ASK, False)
    assert judged.reason


def test_a_directory_inside_the_project_or_the_sandbox_may_be_entered_without_a_rule() -> None:
    judge = bash_rules({"git status": "allow"}, sandbox_root="/srv/box")
    lines = ("cd sub && git status", "cd /srv/box/a && git status", "cd /etc && git status", "cd $X && git status")
    assert verdicts(judge, *lines) == [ALLOW, ALLOW, ASK, ASK]


def test_a_deny_of_cd_counts_and_an_ask_of_everything_does_not() -> None:
    assert verdicts(bash_rules({"*": "ask", "ls": "allow"}), "cd sub && ls") == [ALLOW]
    assert verdicts(bash_rules({"*": "allow", "cd *": "deny"}), "cd sub && ls") == [DENY]


def test_a_later_allow_lifts_a_deny_and_its_near_misses() -> None:
    judge = bash_rules({"git push --force *": "deny", "git *": "allow"})
    assert verdicts(judge, "git push --force x", "git push -f x", "/usr/bin/git push --force") == [ALLOW, ALLOW, ASK]


def test_a_rule_without_a_wildcard_may_hold_a_dangerous_argument() -> None:
    judge = bash_rules({"sort -o a b": "allow", "sort *": "ask"})
    assert verdicts(bash_rules({"sort *": "allow", "sort -o a b": "allow"}), "sort -o a b", "sort -o c b") == [
        ALLOW,
        ASK,
    ]
    assert verdicts(judge, "sort -o a b") == [ASK]


def test_each_pattern_of_a_call_without_a_tool_is_a_line_of_its_own() -> None:
    judge = bash_rules({"*": "allow", "rm *": "deny"})
    judged = judge.evaluate(Call("bash", ("ls", "sudo rm x", "git show $X")))
    assert [(part.text, part.verdict) for part in judged.parts] == [
        ("ls", ALLOW),
        ("sudo rm x", ASK),
        ("rm x", DENY),
        ("git show $X", ASK),
    ]
    assert (judged.verdict, judged.rules) == (DENY, (ref("bash rm * deny"),))
    assert bash_rules({"*": "allow"}).evaluate(Call("bash", ("ls", "git status"))).verdict is ALLOW


def test_patterns_of_a_caller_are_not_trusted_to_be_all_of_its_line() -> None:
    judge = bash_rules({"ls": "allow"})
    assert judge.evaluate(Call("bash", ("ls",), "bash", {"command": "ls; rm x"})).verdict is ASK


def test_other_permissions_are_judged_alike_in_both_profiles() -> None:
    for profile in ("faithful", "hardened"):
        judge = policy(Layer("p", config={"permission": {"read": {"*": "allow", "*.env": "deny"}}}), profile=profile)
        assert [judge.evaluate(Call("read", (text,))).verdict for text in ("a", "$(x).env")] == [ALLOW, DENY]


# --- grants -----------------------------------------------------------------------------------------------------------


def test_a_grant_lifts_the_ask_of_a_plain_command_and_not_of_another_that_looks_like_it() -> None:
    judge, grants = bash_rules({"*": "ask"}), (Grant("g", "bash", "git push *"),)
    lines = ("git push x", "git  push x", "git push x; rm y", "git push $(rm y)", "sudo git push x")
    assert verdicts(judge, *lines, grants=grants) == [ALLOW, ASK, ASK, ASK, ASK]
    asked = [judge.evaluate(bash(line)).parts[0] for line in lines]
    assert [judge.lifts(grants[0], "bash", part) for part in asked] == [True, False, True, False, False]


def test_a_grant_lifts_a_deny_in_faithful_and_never_in_hardened() -> None:
    grants = (Grant("g", "bash", "git push *"),)
    profiles = ("faithful", "hardened")
    assert [bash_rules(GIT, profile=profile).compat for profile in profiles] == ["v1", "v2"]
    line = "git push --force x"
    assert [verdicts(bash_rules(GIT, profile=p), line, grants=grants) for p in profiles] == [[ALLOW], [DENY]]
    assert verdicts(bash_rules(GIT, compat="v1"), line, grants=grants) == [ALLOW]


def test_a_grant_for_a_directory_is_one_of_that_directory() -> None:
    judge = bash_rules({"*": "allow"})
    first = judge.evaluate(bash("rm /etc/x")).ask_first[0]
    found = [judge.evaluate(first, (Grant("g", "external_directory", text),)).verdict for text in ("/etc/*", "/opt/*")]
    assert found == [ALLOW, ASK]


# --- layers, sections, editions ---------------------------------------------------------------------------------------


def test_the_edition_opencode_md_grants_without_a_space() -> None:
    judged = policy(edition="opencode.md").evaluate(bash("git checkout main && npm install"))
    assert judged.always == ("git checkout*", "npm install*")


def test_the_program_s_own_output_stays_readable_below_a_deny_but_not_below_a_session_s() -> None:
    output = Call("external_directory", ("/home/ann/.local/share/opencode/tool-output/*",))
    user = Layer("user", config={"permission": {"external_directory": "deny"}})
    session = Layer("session", rules=(Rule("external_directory", "*", DENY),))
    assert policy(user, defaults=True).evaluate(output).verdict is ALLOW
    assert policy(user, session, defaults=True).evaluate(output).verdict is DENY
    assert policy(user).evaluate(output).verdict is DENY


def test_a_built_in_rule_says_so_and_comes_before_the_user_s() -> None:
    judge = policy(Layer("user", config={"permission": {"question": "ask"}}), defaults=True, agent="build")
    assert judge.rules[0] == Rule("*", "*", ALLOW, "built-in")
    assert judge.evaluate(Call("question", ("*",))).rules == (RuleRef("question * ask", "user"),)


def test_without_an_agent_the_built_in_one_is_build() -> None:
    section = Layer("user", config={"agent": {"build": {"permission": {"bash": "deny"}}}})
    assert [policy(section, defaults=given).disabled(["bash"]) for given in (True, False)] == [{"bash"}, set()]


def test_the_older_modes_are_sections_of_agents_and_come_last() -> None:
    config = {"agent": {"a": {"tools": {"bash": True}}}, "mode": {"a": {"tools": {"bash": False}}}}
    assert policy(Layer("user", config=config), agent="a").disabled(["bash"]) == {"bash"}


@pytest.mark.parametrize("name", sorted(ACTION_ONLY))
def test_a_permission_without_patterns_refuses_an_object_of_them(name: str) -> None:
    text = f"layer `p`: `{name}` takes an action and no patterns; write `allow`, `ask` or `deny`"
    with pytest.raises(PolicyError) as caught:
        policy(Layer("p", config={"permission": {name: {"x": "deny"}}}))
    assert caught.value.text == text
    assert policy(Layer("p", config={"permission": {name: {"*": "deny"}}})).disabled([name]) == {name}


def test_a_permission_that_nobody_knows_works_and_is_pointed_out() -> None:
    judge = policy(
        Layer("p", config={"permission": {"bsah": "deny", "mcp_*": "deny", "write": "deny", "skill": "ask"}})
    )
    assert judge.evaluate(Call("bsah", ("x",))).verdict is DENY
    assert [rule.permission for rule in unknown_permissions(judge.rules)] == ["bsah"]
    assert (len(PERMISSIONS), permission_of("write"), permission_of("mcp_x")) == (17, "edit", "mcp_x")


# --- sub-agents -------------------------------------------------------------------------------------------------------


def test_a_sub_agent_keeps_the_denies_and_directories_of_its_parent_s_session() -> None:
    parent = (
        Rule("bash", "rm *", DENY, "session"),
        Rule("bash", "ls", ALLOW, "session"),
        Rule("external_directory", "/opt/*", ALLOW, "session"),
    )
    own = policy(defaults=True, agent="explore").rules
    assert child_rules(parent, own) == (
        parent[0],
        parent[2],
        Rule("todowrite", "*", DENY),
        Rule("task", "*", DENY),
    )


def test_a_sub_agent_with_rules_of_its_own_for_a_tool_is_not_denied_it() -> None:
    general = policy(defaults=True, agent="general").rules
    assert child_rules((), general) == (Rule("task", "*", DENY),)
    assert child_rules((), (*general, Rule("task", "explore", ALLOW))) == ()


def test_a_malformed_section_of_any_agent_is_refused_before_anything_is_judged() -> None:
    malformed: list[Any] = [{"plan": {"permission": {"bash": "maybe"}}}, {"plan": "deny"}, []]
    for sections in malformed:
        with pytest.raises(PolicyError):
            policy(Layer("user", config={"permission": {}, "agent": sections}))


def test_a_section_counts_for_the_calls_of_its_agent_and_of_no_other() -> None:
    sections = {"plan": {"permission": {"bash": "deny"}}, "build": {"permission": {"bash": "allow"}}}
    judge = policy(Layer("user", config={"permission": {"bash": "ask"}, "agent": sections}))
    calls = [Call("bash", ("make",), agent=agent) for agent in (None, "plan", "build", "other")]
    assert [judge.evaluate(call).verdict for call in calls] == [ASK, DENY, ALLOW, ASK]


def test_of_many_agents_each_is_judged_by_its_own_section() -> None:
    """Of more agents than a policy keeps compiled."""
    actions = {f"agent-{number}": ("deny", "allow")[number % 2] for number in range(2 * AGENTS_COUNT)}
    sections = {agent: {"permission": {"bash": action}} for agent, action in actions.items()}
    judge = policy(Layer("user", config={"permission": {"bash": "ask"}, "agent": sections}))
    for _ in range(2):
        found = {agent: judge.evaluate(Call("bash", ("make",), agent=agent)).verdict.value for agent in sections}
        assert found == actions


def test_each_built_in_agent_has_rules() -> None:
    folders = Folders(None, "/tmp/opencode", None)
    assert all(agent_rules(agent, folders) for agent in OWN_AGENTS)


def test_the_edition_opencode_md_takes_patterns_for_every_key() -> None:
    """opencode-zh.md 9.2 reads both forms of each key; today's program refuses patterns for some."""
    for name in sorted(ACTION_ONLY):
        rules = {name: {"https://a*": "allow", "https://a.example/x*": "deny"}}
        judge = policy(Layer("project", config={"permission": rules}), edition="opencode.md")
        texts = ("https://a.example/", "https://a.example/x", "https://b.example/")
        assert [judge.evaluate(Call(name, (text,))).verdict for text in texts] == [ALLOW, DENY, ASK]


# --- rules by the name of a tool that asks for `edit` -------------------------------------------------------------------


def written(tool: str, path: str) -> Call:
    value = {"patchText": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch", "filePath": path}
    return Call("edit", (), tool, value)


@pytest.mark.parametrize("profile", ["hardened", "faithful"])
@pytest.mark.parametrize("tool", ["write", "patch", "multiedit", "apply_patch"])
def test_a_rule_by_the_tool_s_own_name_restricts_it(profile: str, tool: str) -> None:
    """opencode-zh.md 9.1 denies `*.env` under `write`."""
    rules = {tool: {"*": "allow", "*.md": "ask", "*.env": "deny"}, "edit": "allow"}
    judge = policy(Layer("project", config={"permission": rules}), profile=profile)
    found = {path: judge.evaluate(written(tool, path)) for path in ("a.ts", "a.md", "a.env", "/repo/x/../a.env")}
    assert [one.verdict for one in found.values()] == [ALLOW, ASK, DENY, DENY]
    assert found["a.env"].rules == (ref(f"{tool} *.env deny"),)
    assert judge.evaluate(written("edit", "a.env")).verdict is ALLOW


def test_a_grant_lifts_no_deny_by_the_tool_s_own_name() -> None:
    judge = policy(Layer("project", config={"permission": {"write": {"*.env": "deny"}}}))
    granted = (Grant("g", "edit", "*"),)
    assert [judge.evaluate(written("write", path), granted).verdict for path in ("a.ts", "a.env")] == [ALLOW, DENY]


def test_an_allow_by_the_tool_s_own_name_decides_nothing() -> None:
    judge = policy(Layer("project", config={"permission": {"write": "allow"}}))
    assert judge.evaluate(written("write", "a.ts")).verdict is ASK


def test_a_rule_for_every_permission_is_no_rule_by_the_tool_s_own_name() -> None:
    for rules in ({"*": {"*.env": "deny"}, "edit": "allow"}, {"write": {"*.env": "deny"}, "*": "allow"}):
        judge = policy(Layer("project", config={"permission": rules}))
        assert judge.evaluate(written("write", "a.env")).verdict is ALLOW


def test_hardened_reads_the_rules_by_the_tool_s_own_name_in_every_spelling() -> None:
    rules = {"write": {"*.env": "deny"}, "edit": "allow"}
    judge = policy(Layer("project", config={"permission": rules}), fs={"innocent.txt": "-> .env"})
    assert [judge.evaluate(written("write", path)).verdict for path in ("A.ENV", "innocent.txt")] == [DENY, DENY]
