"""The opencode dialect: layers, order, grants, denials, options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.policy import (
    Call,
    Evaluation,
    Grant,
    Layer,
    Part,
    Policy,
    PolicyError,
    PolicySource,
    Rule,
    RuleRef,
    Verdict,
    compile_policy,
    from_config,
)
from ledger.policy.checks import LAYER_COUNT, RULE_COUNT

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
GIT: dict[str, Any] = {"bash": {"*": "ask", "git *": "allow", "git push *": "ask", "git push --force *": "deny"}}


def config(permission: Any, name: str = "project", **more: Any) -> Layer:
    return Layer(name, config={"permission": permission}, **more)


def policy(*layers: Layer, **options: Any) -> Policy:
    return compile_policy(PolicySource(layers=layers, options=options))


def bash(*patterns: str) -> Call:
    return Call("bash", patterns)


def git_rule(pattern: str, action: str) -> RuleRef:
    return RuleRef(f"bash {pattern} {action}", "project")


def verdict(judge: Policy, permission: str, pattern: str) -> Verdict:
    return judge.evaluate(Call(permission, (pattern,))).verdict


def test_an_allow_names_the_rules_of_all_its_parts_once() -> None:
    allowed = git_rule("git *", "allow")
    assert policy(config(GIT)).evaluate(bash("git status", "git diff")) == Evaluation(
        ALLOW, (Part("git status", ALLOW, (allowed,)), Part("git diff", ALLOW, (allowed,))), (allowed,)
    )


def test_what_no_rule_matches_is_asked_and_says_so() -> None:
    assert policy().evaluate(bash("ls")) == Evaluation(
        ASK, (Part("ls", ASK),), reason="no rule matches, and the default is ask"
    )


def test_a_later_pattern_that_denies_is_seen_behind_one_that_asks() -> None:
    judged = policy(config(GIT)).evaluate(bash("git push", "git push --force x"))
    denied = git_rule("git push --force *", "deny")
    assert judged.parts == (
        Part("git push", ASK, (git_rule("git push *", "ask"),)),
        Part("git push --force x", DENY, (denied,), liftable=False),
    )
    assert (judged.verdict, judged.rules) == (DENY, (denied,))


def test_a_denial_tells_the_agent_the_configured_rules_of_that_permission_as_javascript_would() -> None:
    layer = config({"*": "ask", "read": "allow", "bash": {'say "é🙂"\n\\*': "allow", "rm *": "deny"}})
    judged = policy(layer).evaluate(bash("rm x"), [Grant("grt_1", "bash", "rm *")])
    assert judged.message == (
        "The user has specified a rule which prevents you from using this specific tool call. "
        'Here are some of the relevant rules [{"permission":"*","pattern":"*","action":"ask"},'
        '{"permission":"bash","pattern":"say \\"é🙂\\"\\n\\\\*","action":"allow"},'
        '{"permission":"bash","pattern":"rm *","action":"deny"}]'
    )


def test_the_edition_opencode_md_has_its_own_text_and_order() -> None:
    judge = policy(config({"bash": {"rm *": "deny", "*": "allow"}}), edition="opencode.md")
    assert judge.evaluate(bash("rm x")).message == (
        'Rule prevents this tool call: [{"permission":"bash","pattern":"*","action":"allow"},'
        '{"permission":"bash","pattern":"rm *","action":"deny"}]'
    )


def test_an_order_given_singly_overrides_that_of_the_edition() -> None:
    layer = config({"bash": {"rm *": "deny", "*": "allow"}})
    orders = [{}, {"order": "key-length"}, {"edition": "opencode.md", "order": "insertion"}]
    assert [verdict(policy(layer, **order), "bash", "rm x") for order in orders] == [ALLOW, DENY, ALLOW]


def test_key_length_sorts_the_rules_of_all_layers_together() -> None:
    judge = policy(
        Layer("one", rules=(Rule("bash", "rm *", DENY),)),
        Layer("two", rules=(Rule("bash", "*", ALLOW),)),
        order="key-length",
    )
    assert verdict(judge, "bash", "rm x") is DENY


def test_a_grant_lifts_an_ask_and_is_named() -> None:
    grants = [
        Grant("grt_1", "bash", "git push *"),
        Grant("grt_2", "b*", "git *"),
        Grant("grt_3", "edit", "*"),
        Grant("grt_4", "bash", "rm *"),
    ]
    assert policy(config(GIT)).evaluate(bash("git push origin"), grants) == Evaluation(
        ALLOW, (Part("git push origin", ALLOW, grants=("grt_1", "grt_2")),), reason="allowed by a grant in force"
    )


def test_a_grant_lifts_the_default_ask() -> None:
    assert policy().evaluate(bash("ls"), [Grant("g", "bash", "ls")]).parts == (Part("ls", ALLOW, grants=("g",)),)


def test_a_grant_is_not_named_where_a_rule_allows_already() -> None:
    judged = policy(config(GIT)).evaluate(bash("git status"), [Grant("g", "bash", "*")])
    assert judged.parts == (Part("git status", ALLOW, (git_rule("git *", "allow"),)),)


def test_a_configured_deny_is_final_in_v2_and_lifted_in_v1() -> None:
    call, grants = bash("git push --force x"), [Grant("g", "bash", "git push *")]
    lifted = policy(config(GIT), compat="v1").evaluate(call, grants)
    assert policy(config(GIT)).evaluate(call, grants).verdict is DENY
    assert policy(config(GIT), compat="v2").evaluate(call, grants).verdict is DENY
    assert (lifted.verdict, lifted.parts) == (ALLOW, (Part("git push --force x", ALLOW, grants=("g",)),))


def test_a_denial_that_no_grant_lifts_stays_a_denial_in_v1() -> None:
    judged = policy(config(GIT), compat="v1").evaluate(bash("git push --force x"), [Grant("g", "bash", "git pull *")])
    assert (judged.verdict, judged.parts[0].liftable) == (DENY, True)


def test_a_grant_lifts_a_recorded_part_of_its_permission_and_pattern_if_that_may_be_lifted() -> None:
    judge, grant = policy(config(GIT)), Grant("g", "bash", "git push *")
    asked = Part("git push x", ASK)
    assert judge.lifts(grant, "bash", asked)
    assert not judge.lifts(grant, "edit", asked)
    assert not judge.lifts(grant, "bash", Part("git pull", ASK))
    assert not judge.lifts(grant, "bash", Part("git push x", ASK, liftable=False))


def test_a_call_without_patterns_is_allowed() -> None:
    assert policy(config("deny")).evaluate(Call("bash")).verdict is ALLOW


def test_a_tool_whose_input_nobody_turned_into_patterns_is_asked_and_no_grant_lifts_it() -> None:
    judge, grant = policy(config("allow")), Grant("g", "*", "*")
    judged = judge.evaluate(Call("bash", tool_name="bash", input={"script": "rm -rf /"}), [grant])
    assert (judged.verdict, judged.parts) == (ASK, (Part("bash", ASK, liftable=False),))
    assert not judge.lifts(grant, "bash", judged.parts[0])


def test_backslashes_count_as_slashes_in_calls_rules_and_grants() -> None:
    judge = policy(config({"read": {"C:\\secret\\*": "deny"}}))
    assert verdict(judge, "read", "C:/secret/x") is DENY
    assert judge.evaluate(Call("read", ("D:\\x",)), [Grant("g", "read", "D:/*")]).verdict is ALLOW


def test_configurations_are_merged_key_by_key_and_a_known_key_keeps_its_place() -> None:
    layers = (config({"bash": {"*": "allow", "rm *": "deny"}}, "user"), config({"bash": {"*": "ask"}}))
    judge = policy(*layers)
    assert [verdict(judge, "bash", text) for text in ("rm x", "ls")] == [DENY, ASK]
    assert judge.evaluate(bash("ls")).rules == (RuleRef("bash * ask", "project"),)
    assert judge.evaluate(bash("rm x")).rules == (RuleRef("bash rm * deny", "user"),)


def test_an_action_and_an_object_of_one_key_replace_each_other() -> None:
    one, other = {"bash": "deny"}, {"bash": {"ls": "allow"}}
    assert verdict(policy(config(one), config(other)), "bash", "rm") is ASK
    assert verdict(policy(config(other), config(one)), "bash", "ls") is DENY


def test_an_action_alone_merges_as_the_key_star() -> None:
    judge = policy(config("allow"), config({"bash": "deny"}))
    assert [verdict(judge, permission, "x") for permission in ("bash", "read")] == [DENY, ALLOW]


def test_rules_stand_where_their_layer_stands() -> None:
    allow, deny = (Rule("bash", "*", ALLOW),), (Rule("bash", "*", DENY),)
    between = config({"bash": "ask"})
    assert verdict(policy(Layer("defaults", rules=deny), between), "bash", "x") is ASK
    assert verdict(policy(between, Layer("session", rules=allow)), "bash", "x") is ALLOW
    assert verdict(policy(between, Layer("a", rules=allow), between), "bash", "x") is ASK


def test_a_rule_keeps_its_own_place_in_a_file_over_that_of_its_layer() -> None:
    layer = Layer("session", rules=(Rule("bash", "*", DENY, "file", "r.json", 3), Rule("read", "*", DENY)))
    judge = policy(layer)
    assert judge.evaluate(bash("x")).rules == (RuleRef("bash * deny", "file", "r.json", 3),)
    assert judge.evaluate(Call("read", ("x",))).rules == (RuleRef("read * deny", "session"),)


def test_a_layer_that_is_not_trusted_allows_nothing_and_replaces_no_deny() -> None:
    trusted = config({"*": "allow", "bash": "deny"}, "user")
    untrusted = config({"bash": {"ls": "allow", "cat *": "deny"}, "read": "ask"}, trusted=False)
    judge = policy(trusted, untrusted)
    answers = [verdict(judge, *call) for call in (("bash", "ls"), ("bash", "x"), ("read", "x"), ("edit", "x"))]
    assert answers == [DENY, DENY, ASK, ALLOW]
    assert verdict(policy(Layer("r", rules=(Rule("bash", "*", ALLOW),), trusted=False)), "bash", "x") is ASK


def test_the_section_of_the_agent_comes_after_the_merged_files_and_before_later_rules() -> None:
    user = Layer("user", config={"permission": {"edit": "allow"}, "agent": {"plan": {"permission": {"edit": "deny"}}}})
    project = config({"edit": "ask"})
    session = Layer("session", rules=(Rule("edit", "*.md", ALLOW),))
    answers = [verdict(policy(user, project, session, agent=agent), "edit", "x") for agent in ("plan", "build", None)]
    assert answers == [DENY, ASK, ASK]
    assert verdict(policy(user, project, session, agent="plan"), "edit", "x.md") is ALLOW


@pytest.mark.parametrize("agent", [None, "build"])
def test_the_older_tools_become_rules_before_permission_and_share_the_key_edit(agent: str | None) -> None:
    section = {"tools": {"bash": False, "write": True, "webfetch": False}, "permission": {"webfetch": "ask"}}
    judge = policy(Layer("p", config={"agent": {"build": section}} if agent else section), agent=agent)
    answers = [verdict(judge, permission, "x") for permission in ("bash", "edit", "webfetch", "write")]
    assert answers == [DENY, ALLOW, ASK, ASK]


def test_the_older_tool_multiedit_is_a_tool_of_its_own() -> None:
    """Today's program, `opencode debug agent build`: it has no such tool any more."""
    judge = policy(Layer("p", config={"tools": {"multiedit": True}, "permission": {"edit": "ask"}}))
    assert verdict(judge, "edit", "x") is ASK


def test_keys_that_are_whole_numbers_stand_first_as_the_program_lists_them() -> None:
    """As its language lists an object's members; a later `*` therefore decides over an earlier-looking number."""
    rules = from_config({"bash": {"10": "deny", "b": "allow", "2": "ask", "02": "deny", "-1": "ask"}, "7": "deny"})
    assert [(rule.permission, rule.pattern) for rule in rules] == [
        ("7", "*"),
        ("bash", "2"),
        ("bash", "10"),
        ("bash", "b"),
        ("bash", "02"),
        ("bash", "-1"),
    ]
    assert verdict(policy(config({"bash": {"*": "deny", "5": "allow"}})), "bash", "5") is DENY


def test_the_home_option_stands_for_the_tilde() -> None:
    judge = policy(config({"external_directory": {"~/work/*": "allow"}}), home="/home/ann")
    assert verdict(judge, "external_directory", "/home/ann/work/x") is ALLOW


def test_the_disabled_tools_are_those_of_all_layers() -> None:
    judge = policy(config({"edit": "deny", "bash": "deny"}), Layer("s", rules=(Rule("bash", "ls", ALLOW),)))
    assert judge.disabled(["bash", "write", "read"]) == frozenset({"write"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"profil": "x"},
            (
                "the opencode dialect has no option `profil`; it has profile, edition, order, compat, agent, home, defaults, "
                "cwd, worktree, sandbox_root, data, tmp, fs"
            ),
        ),
        ({"profile": "strict"}, "the option `profile` must be `hardened` or `faithful`, not `strict`"),
        ({"defaults": 1}, "the option `defaults` must be true or false, not `1`"),
        ({"cwd": "here"}, "the option `cwd` must be an absolute path, not `here`"),
        ({"fs": []}, "the option `fs` must be an object from path to fact, not `[]`"),
        ({"edition": "2"}, "the option `edition` must be `current` or `opencode.md`, not `2`"),
        ({"order": True}, "the option `order` must be `insertion` or `key-length`, not `True`"),
        ({"compat": "v3"}, "the option `compat` must be `v1` or `v2`, not `v3`"),
        ({"agent": ""}, "the option `agent` must be a string that is not empty, not ``"),
        ({"home": 1}, "the option `home` must be a string that is not empty, not `1`"),
    ],
)
def test_an_option_that_is_not_known_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(**options)
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (Layer("p", config="allow"), "layer `p`: a configuration is an object with `permission`, not `allow`"),
        (Layer("p", config={"permissions": []}),
         "layer `p`: `permissions` is a list of OpenCode 2, which is not supported; write the rules under `permission`"),
        (Layer("p", config={"tools": []}), "layer `p`: `tools` must be an object, not `[]`"),
        (Layer("p", config={"tools": {"bash": "no"}}), "layer `p`: `tools` must say true or false for `bash`"),
        (Layer("p", config={"agent": []}), "layer `p`: `agent` must be an object"),
        (Layer("p", config={"agent": {"a": 1}}), "layer `p`: the section of the agent `a` must be an object"),
        (Layer("p", config={"permission": {"bash": "x"}}, file="o.json", lines={"/permission/bash": 7}),
         "`o.json` line 7: the action of `bash` must be `allow`, `ask` or `deny`, not `x`"),
        (Layer("p", config={}, rules=(Rule("a", "b", ASK),)),
         "layer `p`: a layer holds either a configuration or rules, not both"),
    ],
)  # fmt: skip
def test_a_layer_that_is_misshapen_is_refused_with_its_place(layer: Layer, text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(layer, agent="a")
    assert caught.value.text == text


def test_a_policy_is_bounded_in_layers_and_rules() -> None:
    with pytest.raises(PolicyError, match="the policy has 65 layers; at most 64 are accepted"):
        policy(*[Layer("x")] * (LAYER_COUNT + 1))
    half = Layer("x", rules=(Rule("a", "b", ASK),) * (RULE_COUNT // 2 + 1))
    with pytest.raises(PolicyError, match="the policy has 10002 rules; at most 10000 are accepted"):
        policy(half, half)


def test_the_message_of_a_denial_is_valid_json_after_its_sentence() -> None:
    message = policy(config(GIT)).evaluate(bash("git push --force x")).message or ""
    assert [rule["action"] for rule in json.loads(message[message.index("[") :])] == ["ask", "allow", "ask", "deny"]
