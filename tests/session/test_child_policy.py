"""A sub-agent's session is judged by its own rules and its parent's, and its log records both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import InputError, Ledger, Session
from ledger.policy import Call, Layer, PolicySource, Rule, Verdict
from ledger.policy.dialects import child_source, compile_policy

CONFIG = {"permission": {"*": "ask", "read": "allow", "bash": {"*": "ask", "git *": "allow"}}}
DENY_PUSH = {"permission": "bash", "pattern": "git push *", "action": "deny"}


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


def policy_of(*layers: Layer, **options: Any) -> PolicySource:
    return PolicySource("opencode", layers, options)


async def outcomes(ledger: Ledger, session_id: str, *asked: tuple[str, str]) -> list[str | None]:
    session = await ledger.attach(session_id)
    return [(await session.submit(permission, [pattern])).outcome for permission, pattern in asked]


async def layers(session: Session) -> list[str]:
    return [layer.name for layer in (await session.rules()).layers]


async def test_a_child_without_rules_has_its_parents_configuration_and_the_denies_of_its_session(
    ledger: Ledger,
) -> None:
    session_rules = (Rule("bash", "git push *", Verdict.DENY), Rule("webfetch", "*", Verdict.ALLOW))
    await ledger.session("p", policy=policy_of(Layer("project", config=CONFIG), Layer("session", rules=session_rules)))
    child = await ledger.session("c", parent="p", agent="explore")
    asked = (
        ("read", "a"),
        ("bash", "git log"),
        ("bash", "git push x"),
        ("webfetch", "u"),
        ("task", "x"),
        ("todowrite", "*"),
    )
    assert await outcomes(ledger, "c", *asked) == ["allowed", "allowed", "denied", None, "denied", "denied"]
    rules = await child.rules()
    assert await layers(child) == ["project", "parent"]
    assert rules.options["agent"] == "explore"
    assert [(rule.permission, rule.pattern, rule.layer) for rule in rules.layers[-1].rules] == [
        ("bash", "git push *", "session"),
        ("todowrite", "*", None),
        ("task", "*", None),
    ]


async def test_rules_of_a_childs_own_lift_nothing_that_the_parent_denies(ledger: Ledger) -> None:
    await ledger.session(
        "p", rules=[DENY_PUSH, {"permission": "external_directory", "pattern": "/x/*", "action": "ask"}]
    )
    own = [{"permission": name, "pattern": "*", "action": "allow"} for name in ("bash", "external_directory", "task")]
    await ledger.session("c", parent="p", rules=own)
    asked = ("bash", "git push x"), ("bash", "ls"), ("external_directory", "/x/y"), ("external_directory", "/z/y")
    assert await outcomes(ledger, "c", *asked) == ["denied", "allowed", None, "allowed"]
    assert await outcomes(ledger, "c", ("task", "a"), ("todowrite", "*")) == ["allowed", "denied"]


async def test_a_grandchild_has_what_its_parent_had_from_the_first(ledger: Ledger) -> None:
    await ledger.session("p", rules=[DENY_PUSH])
    await ledger.session("c", parent="p")
    grandchild = await ledger.session("g", parent="c", rules=[{"permission": "*", "pattern": "*", "action": "allow"}])
    assert await outcomes(ledger, "g", ("bash", "git push x"), ("bash", "ls")) == ["denied", "allowed"]
    assert await layers(grandchild) == ["session", "parent"]


async def test_new_rules_of_a_child_keep_what_it_has_from_its_parent(ledger: Ledger) -> None:
    await ledger.session("p", rules=[DENY_PUSH])
    await ledger.session("c", parent="p")
    child = await ledger.session("c", rules=[{"permission": "*", "pattern": "*", "action": "allow"}])
    assert await outcomes(ledger, "c", ("bash", "git push x"), ("read", "a")) == ["denied", "allowed"]
    version = (await child.state()).version
    await ledger.session("c", rules=[{"permission": "*", "pattern": "*", "action": "allow"}])
    assert (await child.state()).version == version


async def test_a_child_of_no_known_session_has_the_two_denies(ledger: Ledger) -> None:
    child = await ledger.session(
        "c", parent="nobody", rules=[{"permission": "read", "pattern": "*", "action": "allow"}]
    )
    assert await outcomes(ledger, "c", ("read", "a"), ("task", "x"), ("todowrite", "*")) == [
        "allowed",
        "denied",
        "denied",
    ]
    assert (await child.state()).parent == "nobody"


async def test_attaching_to_a_child_changes_nothing(ledger: Ledger) -> None:
    await ledger.session("p", rules=[DENY_PUSH])
    child = await ledger.session("c", parent="p")
    version = (await child.state()).version
    await ledger.session("p", rules=[])
    await ledger.session("c", parent="p")
    assert (await child.state()).version == version


@pytest.mark.parametrize("dialect", ["claude", "codelia"])
async def test_in_the_deny_first_dialects_the_parents_denies_go_on(ledger: Ledger, dialect: str) -> None:
    rules: dict[str, Any] = {
        "claude": (
            {"permissions": {"allow": ["Bash(make:*)"], "deny": ["Bash(rm:*)"]}},
            {"permissions": {"allow": ["Bash"]}},
        ),
        "codelia": (
            {
                "permissions": {
                    "allow": [{"tool": "bash", "command": "make"}],
                    "deny": [{"tool": "bash", "command": "rm"}],
                }
            },
            {"permissions": {"allow": [{"tool": "bash", "command": "ls"}, {"tool": "bash", "command": "rm"}]}},
        ),
    }
    parents, own = rules[dialect]
    tool = "Bash" if dialect == "claude" else "bash"
    await ledger.session("p", rules=parents, dialect=dialect, options={"cwd": "/repo"})
    child = await ledger.session("c", parent="p", rules=own, dialect=dialect, options={"cwd": "/repo"})
    assert (await child.submit_tool(tool, {"command": "rm x"})).outcome == "denied"
    assert (await child.submit_tool(tool, {"command": "ls"})).outcome == "allowed"
    inheriting = await ledger.session("c2", parent="p")
    assert (await inheriting.submit_tool(tool, {"command": "make"})).outcome == "allowed"
    assert (await inheriting.state()).settings.cascade_reject == "none"


async def test_rules_of_another_dialect_than_the_parents_are_refused(ledger: Ledger) -> None:
    await ledger.session("p", rules=[DENY_PUSH])
    with pytest.raises(InputError, match="the parent has rules of dialect `opencode`, which rules of dialect `claude`"):
        await ledger.session("c", parent="p", rules={"permissions": {}}, dialect="claude")


@pytest.mark.parametrize(
    ("parents", "own", "judged"),
    [
        ({}, {"profile": "faithful"}, {}),
        ({}, {"profile": "faithful", "compat": "v1"}, {}),
        ({}, {"compat": "v1"}, {"compat": "v2"}),
        ({"profile": "faithful", "compat": "v2"}, {"profile": "faithful"}, {"profile": "faithful", "compat": "v2"}),
        ({"profile": "faithful"}, {"profile": "faithful"}, {"profile": "faithful"}),
        ({"profile": "faithful"}, {"profile": "hardened"}, {"profile": "hardened"}),
    ],
)
def test_a_child_is_judged_in_no_looser_profile_than_its_parent(
    parents: dict[str, Any], own: dict[str, Any], judged: dict[str, Any]
) -> None:
    child = child_source(policy_of(Layer("project", config=CONFIG), **parents), policy_of(**own), None)
    assert child.options == judged


names = st.sampled_from(["bash", "read", "external_directory", "task", "*"])
texts = st.sampled_from(["*", "git *", "git push *", "/x/*", "a"])
some_rules = st.lists(st.builds(Rule, names, texts, st.sampled_from(Verdict)), max_size=5).map(tuple)


@given(
    parents=some_rules, own=some_rules, order=st.sampled_from(["insertion", "key-length"]), permission=names, text=texts
)
def test_whatever_a_childs_own_rules_a_deny_of_its_parents_last_rule_holds(
    parents: tuple[Rule, ...], own: tuple[Rule, ...], order: str, permission: str, text: str
) -> None:
    options = {"order": order, "profile": "faithful"}
    parent = PolicySource("opencode", (Layer("session", rules=parents),), options)
    child = child_source(parent, PolicySource("opencode", (Layer("own", rules=own),), options), None)
    denied = [rule for rule in parents if rule.action is Verdict.DENY]
    alone = compile_policy(PolicySource("opencode", (Layer("denies", rules=tuple(denied)),), options))
    call = Call(permission, (text,))
    if permission != "external_directory" and alone.evaluate(call).verdict is Verdict.DENY:
        assert compile_policy(child).evaluate(call).verdict is Verdict.DENY
