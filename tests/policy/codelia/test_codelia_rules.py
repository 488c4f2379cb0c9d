"""Codelia's rules: allowed forms, their meaning, and the handling of malformed ones."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.policy import RuleRef
from ledger.policy import Call, Evaluation, Grant, Layer, Part, PolicyError, PolicySource, Rule, Verdict, compile_policy
from ledger.policy.codelia import CodeliaPolicy
from tests.policy.codelia.codelia_calls import (
    PROFILES,
    ROOT,
    bash,
    commands,
    globs,
    grant,
    judge,
    policy,
    tool,
    verdict,
)


@pytest.mark.parametrize("profile", PROFILES)
def test_an_evaluation_names_segments_rules_layer_and_what_the_agent_is_told(profile: str) -> None:
    rules = policy(commands("ls"), commands("rm"), profile=profile)
    rm = RuleRef('{"tool": "bash", "command": "rm"}', "project")
    ls = RuleRef('{"tool": "bash", "command": "ls"}', "project")
    assert judge("ls && rm x", rules) == Evaluation(
        Verdict.DENY,
        (Part("ls", Verdict.ALLOW, (ls,)), Part("rm x", Verdict.DENY, (rm,), liftable=False)),
        (rm,),
        "Permission denied: a rule denies `rm x`",
        "a rule denies `rm x`",
        ('{"tool": "bash", "command": "rm"}',),
    )


def test_a_rule_is_named_by_its_members_in_the_order_in_which_they_were_written() -> None:
    rules = policy([{"command": "ls", "tool": "shell"}])
    assert [rule.text for rule in judge("ls", rules).rules] == ['{"command": "ls", "tool": "shell"}']


MISSHAPEN: list[tuple[dict[str, Any], str, str]] = [
    ({"tool": "bash", "command": ""}, "`command` must be a string that is not empty, not ``", "wider"),
    ({"tool": "bash", "command": 5}, "`command` must be a string that is not empty, not `5`", "wider"),
    ({"tool": "bash", "command": "  "}, "`command` must be a string that is not empty, not `  `", "inert"),
    ({"tool": "bash", "command_glob": ""}, "`command_glob` must be a string that is not empty, not ``", "wider"),
    ({"tool": "bash", "comand": "ls"}, "a rule has no member `comand`; it has", "wider"),
    ({"tool": "bash", "skill_name": "a"}, "`skill_name` is for rules of `skill_load`, not of `bash`", "inert"),
    ({"tool": "read", "command": "x"}, "`command` is for rules of `bash`, not of `read`", "inert"),
    ({"tool": "read", "command_glob": "x"}, "`command_glob` is for rules of `bash`, not of `read`", "inert"),
    ({"tool": "read", "skill_name": "a"}, "`skill_name` is for rules of `skill_load`, not of `read`", "inert"),
    ({"tool": "skill_load", "skill_name": "a b"}, "the skill name `a b` must be letters and digits", "inert"),
    ({"tool": "skill_load", "skill_name": ""}, "`skill_name` must be a string that is not empty, not ``", "wider"),
]


@pytest.mark.parametrize(("rule", "text", "faithfully"), MISSHAPEN, ids=lambda value: str(value)[:40])
def test_a_rule_that_means_something_else_than_it_says_is_refused_or_taken_as_codelia_does(
    rule: dict[str, Any], text: str, faithfully: str
) -> None:
    lines = {"/permissions/allow/1": 7}
    config = {"permissions": {"allow": [{"tool": "done"}, rule]}}
    layer = Layer("project", config=config, file="config.json", lines=lines)
    with pytest.raises(PolicyError) as refused:
        CodeliaPolicy(PolicySource("codelia", (layer,)))
    assert str(refused.value).startswith("`config.json`")
    assert text in str(refused.value)
    value = {"command": "ls"} if rule["tool"] == "bash" else {}
    loose = CodeliaPolicy(PolicySource("codelia", (layer,), {"profile": "faithful"}))
    expected = Verdict.ALLOW if faithfully == "wider" else Verdict.ASK
    assert loose.evaluate(tool(rule["tool"], value)).verdict is expected


def test_the_line_of_a_rule_is_told_when_it_is_known() -> None:
    layer = Layer(
        "project", config={"permissions": {"deny": [5]}}, file="config.json", lines={"/permissions/deny/0": 4}
    )
    with pytest.raises(PolicyError) as refused:
        CodeliaPolicy(PolicySource("codelia", (layer,)))
    assert str(refused.value) == "`config.json` line 4: a rule is an object that names its `tool`, not `5`"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("config", "text"),
    [
        ([], "a configuration is an object with `permissions`"),
        ({"version": 2}, "the version `2` of a configuration is unknown; write 1"),
        ({"version": True}, "the version `True` of a configuration is unknown"),
        ({"permissions": []}, "`permissions` must be an object with `allow` and `deny`"),
        ({"permissions": {"deny": {}}}, "`deny` must be a list of rules"),
        ({"permissions": {"deny": [{}]}}, "a rule is an object that names its `tool`"),
        ({"permissions": {"deny": [{"tool": ""}]}}, "a rule is an object that names its `tool`"),
        ({"permissions": {"allow": [{"tool": "x" * 300}]}}, "has more than"),
    ],
)
def test_a_configuration_of_another_shape_is_refused_in_both_profiles(config: Any, text: str, profile: str) -> None:
    with pytest.raises(PolicyError) as refused:
        CodeliaPolicy(PolicySource("codelia", (Layer("x", config=config),), {"profile": profile}))
    assert text in str(refused.value)


def test_a_third_list_is_refused_in_the_hardened_profile_since_its_rules_would_be_lost() -> None:
    layer = Layer("x", config={"permissions": {"denny": commands("rm")}})
    with pytest.raises(PolicyError) as refused:
        CodeliaPolicy(PolicySource("codelia", (layer,)))
    assert str(refused.value) == "layer `x`: `permissions` holds `allow` and `deny`, not `denny`"
    CodeliaPolicy(PolicySource("codelia", (layer,), {"profile": "faithful"}))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"profile": "soft"}, "the option `profile` must be `hardened` or `faithful`, not `soft`"),
        ({"agent": "x"}, "the codelia dialect has no option `agent`"),
        ({"sandbox_root": "repo"}, "the option `sandbox_root` must be an absolute path, not `repo`"),
        ({"defaults": "yes"}, "the option `defaults` must be true or false, not `yes`"),
        ({"edition": "next"}, "the option `edition` must be `codelia.md` or `current`, not `next`"),
    ],
)
def test_an_option_that_is_not_understood_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as refused:
        compile_policy(PolicySource("codelia", (), options))
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize("profile", PROFILES)
def test_layers_are_concatenated_and_a_deny_of_any_layer_wins(profile: str) -> None:
    low = Layer("global", config={"permissions": {"deny": commands("git push")}})
    high = Layer("project", config={"permissions": {"allow": commands("git")}})
    rules = CodeliaPolicy(PolicySource("codelia", (low, high), {"profile": profile}))
    evaluation = judge("git push origin", rules)
    assert (evaluation.verdict, [rule.layer for rule in evaluation.rules]) == (Verdict.DENY, ["global"])
    assert verdict("git status", rules) is Verdict.ALLOW


def test_a_layer_that_is_not_trusted_denies_and_does_not_allow() -> None:
    config = {"permissions": {"allow": commands("ls"), "deny": commands("rm")}}
    rules = CodeliaPolicy(PolicySource("codelia", (Layer("project", config=config, trusted=False),)))
    assert [verdict(line, rules) for line in ("ls", "rm x")] == [Verdict.ASK, Verdict.DENY]


def test_rules_of_a_program_are_globs_skills_and_whole_tools() -> None:
    layer = Layer(
        "host",
        rules=(
            Rule("bash", "git status*", Verdict.ALLOW),
            Rule("skill_load", "review", Verdict.ALLOW),
            Rule("write", "*", Verdict.DENY),
        ),
    )
    rules = CodeliaPolicy(PolicySource("codelia", (layer,)))
    calls = [bash("git status -s"), tool("skill_load", {"name": "review"}), tool("write"), tool("edit")]
    assert [rules.evaluate(call).verdict.value for call in calls] == ["allow", "allow", "deny", "ask"]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule("bash", "*", Verdict.ASK), "codelia has no ask rules: what no rule allows is asked"),
        (Rule("write", "*.py", Verdict.DENY), "a rule for `write` is for the whole tool: its pattern is `*`"),
    ],
)
def test_a_rule_that_codelia_cannot_express_is_refused(rule: Rule, text: str) -> None:
    with pytest.raises(PolicyError) as refused:
        CodeliaPolicy(PolicySource("codelia", (Layer("host", rules=(rule,)),)))
    assert text in str(refused.value)


@pytest.mark.parametrize("profile", PROFILES)
def test_shell_is_another_name_for_bash_in_rules_and_calls(profile: str) -> None:
    for written, called in (("shell", "bash"), ("bash", "shell"), ("shell", "shell")):
        allow, deny = [{"tool": written, "command": "rg"}], [{"tool": written, "command": "rm"}]
        rules = policy(allow, deny, profile=profile)
        answers = [rules.evaluate(tool(called, {"command": line})).verdict.value for line in ("rg x", "rm x", "ls")]
        assert answers == ["allow", "deny", "ask"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "value", [{}, {"command": ""}, {"command": "  "}, {"command": 5}, None, "ls", {"command": "> f a"}]
)
def test_an_input_without_a_command_is_asked_and_a_deny_of_the_tool_holds(value: Any, profile: str) -> None:
    call = Call("bash", tool_name="bash", input=value)
    allowed = policy([{"tool": "bash"}], profile=profile).evaluate(call)
    assert (allowed.verdict, allowed.parts, bool(allowed.reason)) in (
        (Verdict.ASK, (), True),
        (Verdict.ASK, allowed.parts, True),
    )
    assert policy([], [{"tool": "bash"}], profile=profile).evaluate(call).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("value", "faithful", "hardened"),
    [
        ({"name": "review"}, "allow", "allow"),
        ({"name": " Review "}, "allow", "allow"),
        ({"name": "reviews"}, "ask", "ask"),
        ({"path": "/x/review/SKILL.md"}, "allow", "allow"),
        ({"path": "C:\\x\\review"}, "allow", "allow"),
        ({"path": "SKILL.md"}, "ask", "ask"),
        ({"name": "no such name!", "path": "/x/review"}, "ask", "ask"),
        ({"name": "no such name!", "path": "/x/danger"}, "deny", "deny"),
        ({"name": " ", "path": "/x/review"}, "ask", "ask"),
        ({"name": "", "path": "/x/review"}, "allow", "allow"),
        ({"name": "review", "path": "/x/review"}, "allow", "allow"),
        ({"name": "review", "path": "/x/other"}, "allow", "deny"),
        ({"name": "danger"}, "deny", "deny"),
        ({"name": "review", "path": "/x/danger/skill.md"}, "allow", "deny"),
        ({}, "ask", "ask"),
        (None, "ask", "ask"),
    ],
)
def test_a_skill_is_known_by_name_and_by_path_when_it_is_not_named(value: Any, faithful: str, hardened: str) -> None:
    allow, deny = [{"tool": "skill_load", "skill_name": "review"}], [{"tool": "skill_load", "skill_name": "danger"}]
    call = Call("skill_load", tool_name="skill_load", input=value)
    answers = [policy(allow, deny, profile=profile).evaluate(call).verdict.value for profile in PROFILES]
    assert answers == [faithful, hardened]


def test_a_rule_for_every_skill_is_for_names_of_skills_in_the_hardened_profile() -> None:
    call = Call("skill_load", tool_name="skill_load", input={"name": "no such name!"})
    answers = [
        policy([{"tool": "skill_load"}], [], profile=profile).evaluate(call).verdict.value for profile in PROFILES
    ]
    assert answers == ["allow", "ask"]


def test_a_name_that_disagrees_with_its_path_is_refused_in_words() -> None:
    call = tool("skill_load", {"name": "review", "path": "/x/other"})
    evaluation = policy([{"tool": "skill_load"}]).evaluate(call)
    assert evaluation.message == "Denied by rule: `skill_load` names the skill `review` and loads `other`"
    assert evaluation.always == ()


@pytest.mark.parametrize("profile", PROFILES)
def test_where_nobody_can_be_asked_an_ask_is_a_deny(profile: str) -> None:
    rules = policy(commands("ls"), profile=profile, supports_confirm=False)
    assert verdict("ls", rules) is Verdict.ALLOW
    evaluation = judge("ls; make", rules)
    assert (evaluation.verdict, evaluation.message, evaluation.reason, evaluation.rules) == (
        Verdict.DENY,
        "Permission denied: UI confirm not supported",
        "UI confirm not supported",
        (),
    )
    assert [part.verdict for part in evaluation.parts] == [Verdict.ALLOW, Verdict.DENY]
    granted = (grant({"tool": "bash", "command": "make"}),)
    assert judge("ls; make", rules, granted).verdict is Verdict.ALLOW


@pytest.mark.parametrize("profile", PROFILES)
def test_a_grant_is_an_allow_rule_that_no_deny_yields_to(profile: str) -> None:
    rules = policy([], commands("git push"), profile=profile)
    granted = (grant({"tool": "bash", "command": "git"}, "g7"),)
    evaluation = judge("git status", rules, granted)
    assert evaluation == Evaluation(
        Verdict.ALLOW,
        (Part("git status", Verdict.ALLOW, grants=("g7",)),),
        reason="allowed by a grant in force",
    )
    assert judge("git push", rules, granted).verdict is Verdict.DENY


def test_a_grant_that_cannot_be_read_lifts_nothing() -> None:
    rules = policy()
    part = judge("ls", rules).parts[0]
    for text in ("ls", "{", "[]", '{"tool": "bash", "command": ""}', '{"tool": "bash", "note": "x"}'):
        odd = Grant("g", "bash", text)
        assert judge("ls", rules, (odd,)).verdict is Verdict.ASK
        assert not rules.lifts(odd, "bash", part)


def test_a_whole_tool_is_granted_by_a_star() -> None:
    assert policy().evaluate(tool("write"), (Grant("g", "write", "*"),)).verdict is Verdict.ALLOW


def test_a_tool_is_disabled_when_a_deny_names_it_without_a_condition() -> None:
    rules = policy([], [{"tool": "bash"}, {"tool": "write"}, {"tool": "skill_load", "skill_name": "a"}])
    assert rules.disabled(["bash", "shell", "write", "read", "skill_load"]) == {"bash", "shell", "write"}


@pytest.mark.parametrize("profile", PROFILES)
def test_patterns_of_a_permission_are_command_lines_each(profile: str) -> None:
    rules = policy(commands("ls"), commands("rm"), profile=profile)
    assert rules.evaluate(Call("bash", ("ls", "make"))).verdict is Verdict.ASK
    evaluation = rules.evaluate(Call("bash", ("make", "rm x")))
    assert [part.verdict.value for part in evaluation.parts] == ["ask", "deny"]
    assert rules.evaluate(Call("bash")).verdict is Verdict.ALLOW


HARDER = [
    ("ls & rm -rf x", commands("ls"), "no rule allows `rm -rf x` by its own words"),
    ("ls\nmake", commands("ls"), "no rule allows `make` by its own words"),
    ("rg x > f", globs("rg*"), "`> f` writes to a file"),
    ("git status && make", globs("git status*"), "no rule allows `make` by its own words"),
    ("ls $(make)", commands("ls"), "`$(make)`, which `ls` reads, may be outside of the project"),
    ("X=1 ls", globs("*"), "`X=` in front of a command may change what it does"),
    ("find . -delete", commands("find"), None),
    ("sudo ls", commands("sudo"), None),
    ("'l's x\u00a0y", globs("'l's*"), None),
]


@pytest.mark.parametrize(("line", "allow", "reason"), HARDER, ids=lambda value: ascii(value)[:30])
def test_what_codelia_lets_through_unread_is_asked_in_the_hardened_profile(
    line: str, allow: list[dict[str, Any]], reason: str | None
) -> None:
    assert verdict(line, policy(allow, profile="faithful")) is Verdict.ALLOW
    evaluation = judge(line, policy(allow))
    assert evaluation.verdict is Verdict.ASK
    assert reason is None or evaluation.reason == reason


@pytest.mark.parametrize(
    "line", ["r'm' x", "\\rm x", "/bin/rm x", "ls $(rm x)", "sudo rm x", "FOO=1 rm x", "sh -c 'rm x'"]
)
def test_a_deny_reaches_every_spelling_in_the_hardened_profile(line: str) -> None:
    evaluation = judge(line, policy([{"tool": "bash"}], commands("rm")))
    assert evaluation.verdict is Verdict.DENY
    assert evaluation.message == 'Denied by rule: {"tool": "bash", "command": "rm"}'


def test_a_rule_covers_the_dangerous_arguments_that_it_spells() -> None:
    line = "find . -name x -delete"
    assert verdict(line, policy(globs(line))) is Verdict.ALLOW
    assert verdict(line, policy(commands("find"))) is Verdict.ASK
    assert verdict(line, policy(commands("find . -name x -delete"))) is Verdict.ALLOW
    assert verdict("find . -delete -name x", policy(commands("find . -name x"))) is Verdict.ASK


def test_a_deny_with_both_members_reaches_every_spelling() -> None:
    deny = [{"tool": "bash", "command": "git push", "command_glob": "*--force*"}]
    assert verdict("git push -f", policy(commands("git"), deny)) is Verdict.DENY
    assert verdict("git push origin --force", policy(commands("git"), deny)) is Verdict.DENY


def test_a_denied_file_tool_denies_redirections_too() -> None:
    assert verdict("ls > f", policy([{"tool": "bash"}], [{"tool": "write"}])) is Verdict.DENY
    assert verdict("cat < f", policy([{"tool": "bash"}], [{"tool": "read"}])) is Verdict.DENY
    assert verdict("ls 2>&1 > /dev/null", policy([{"tool": "bash"}], [{"tool": "write"}])) is Verdict.ASK


def test_a_line_of_thousands_of_commands_is_asked_unread_and_a_deny_holds_all_the_same() -> None:
    rules = policy([{"tool": "bash"}], commands("rm"))
    evaluation = judge("ls;" * 6_000, rules)
    assert (evaluation.verdict, evaluation.reason) == (Verdict.ASK, "the line holds more than 5,000 commands")
    assert verdict("ls;" * 6_000 + "rm x", rules) is Verdict.DENY


@pytest.mark.parametrize("profile", PROFILES)
def test_the_rule_that_is_named_is_the_first_that_matches_whatever_it_is_found_by(profile: str) -> None:
    allow = [*globs("x*"), *commands("git"), *globs("git*"), *commands("git status")]
    for order in (allow, allow[::-1]):
        first = next(rule for rule in order if rule != globs("x*")[0])
        named = judge("ls; git status", policy([*commands("ls"), *order], profile=profile)).parts[1].rules
        assert [rule.text for rule in named] == [str(first).replace("'", '"')]


def test_other_facts_about_files_make_another_policy() -> None:
    class Nowhere:
        def resolve(self, path: str) -> str:
            return "/elsewhere" + path

        def kind(self, path: str) -> None:
            return None

    rules = policy(sandbox_root=ROOT)
    assert verdict("cd a", rules) is Verdict.ALLOW
    moved = rules.with_facts(Nowhere())
    assert (moved.source, moved.options.facts is rules.options.facts) == (rules.source, False)
