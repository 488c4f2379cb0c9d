"""Offered grants: the narrowest first, each tried, and no kind of command that deletes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.policy import Offer
from ledger.policy import Call, Grant, Layer, Policy, PolicySource, Verdict, compile_policy
from ledger.policy.check_questions import call_of
from ledger.policy.offers import PAIRS_COUNT, narrowed, offers
from tests.support.rows import every

DIALECTS = ("opencode", "brutus", "claude", "betcode", "codelia")
PROFILES = ("hardened", "faithful")


def compiled(dialect: str, profile: str = "hardened", config: Any = None) -> Policy:
    asking = {"permission": {"*": "ask"}} if dialect in ("opencode", "brutus") else {"permissions": {}}
    layer = Layer("project", config=asking if config is None else config)
    return compile_policy(PolicySource(dialect, (layer,), {"cwd": "/repo", "home": "/h", "profile": profile}))


def shell_call(dialect: str, line: str) -> Call:
    tool = "Bash" if dialect in ("claude", "betcode") else "bash"
    return call_of({"dialect": dialect, "tool": tool, "input": {"command": line}})


def offered(policy: Policy, call: Call) -> tuple[Offer, ...]:
    evaluation = policy.evaluate(call)
    return offers(policy, call, evaluation, evaluation.always)


def of_line(dialect: str, line: str, profile: str = "hardened") -> tuple[Offer, ...]:
    return offered(compiled(dialect, profile), shell_call(dialect, line))


def with_entries(policy: Policy, call: Call, entries: tuple[str, ...]) -> Verdict:
    grants = [Grant(f"grant {number}", call.permission, entry) for number, entry in enumerate(entries)]
    return policy.evaluate(call, grants).verdict


def test_the_choice_is_from_the_command_alone_to_its_family() -> None:
    assert of_line("opencode", "git tag v1.4.0") == (Offer(("git tag v1.4.0",), "exact"), Offer(("git tag *",), "kind"))
    assert of_line("claude", "git tag v1.4.0") == (
        Offer(("Bash(git tag v1.4.0)",), "exact"),
        Offer(("Bash(git tag *)",), "kind"),
    )


def test_entries_beyond_those_that_are_tried_are_not_granted() -> None:
    """Each pair of an entry and a command is judged, which takes seconds for a line of sixty nested substitutions."""
    line = "".join(f"rm a{number} $(" if number % 2 else f"prog{number} $(" for number in range(60)) + "x" + ")" * 60
    policy, call = compiled("brutus"), shell_call("brutus", line)
    evaluation = policy.evaluate(call)
    tried = 0

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(policy, name)

        def evaluate(self, *about: Any) -> Any:
            nonlocal tried
            tried += 1
            return policy.evaluate(*about)

    counting: Any = Counting()
    assert len(evaluation.always) > 30
    assert narrowed(counting, call, evaluation, evaluation.always) == ()
    assert tried <= PAIRS_COUNT


@every("dialect", DIALECTS)
@every("profile", PROFILES)
@every("line", ["rm -rf build", "rm x", "dd if=a of=b", "git clean -fd", "sudo ls", "git branch -D x"])
def test_no_family_is_offered_of_what_deletes_or_has_other_rights(dialect: str, profile: str, line: str) -> None:
    for one in of_line(dialect, line, profile):
        assert one.reach == "exact" or one.name is not None, one


@pytest.mark.parametrize("dialect", ["opencode", "brutus"])
def test_an_always_of_the_hardened_profile_never_grants_every_deletion(dialect: str) -> None:
    policy, call = compiled(dialect), shell_call(dialect, "rm -rf build")
    evaluation = policy.evaluate(call)
    assert narrowed(policy, call, evaluation, evaluation.always) == ("rm -rf build",)


@pytest.mark.parametrize(
    ("line", "wide"),
    [
        ("git tag v1", False),
        ("npm run build", False),
        ("npm install left-pad", True),
        ("frobnicate --all", True),
        ("frobnicator-x y", True),
    ],
)
def test_a_family_that_lets_through_much_more_is_marked_wide(line: str, wide: bool) -> None:
    family = next(one for one in of_line("opencode", line) if one.reach == "kind")
    assert family.wide is wide


def test_what_stays_out_of_a_choice_is_said() -> None:
    [exact, kind] = of_line("opencode", "git tag v1 && ls *.py")
    assert exact.entries == ("git tag v1",)
    assert exact.still_asked == ("`ls *.py`, which no offered pattern covers",)
    assert kind.still_asked == ()


@pytest.mark.parametrize(
    ("dialect", "tool", "value", "found"),
    [
        (
            "opencode", "edit", {"filePath": "/repo/src/a.ts"},
            (Offer(("src/a.ts",), "exact"), Offer(("src/*",), "kind"), Offer(("*",), "all", True, "every file edit")),
        ),
        (
            "opencode", "webfetch", {"url": "https://example.com/a"},
            (
                Offer(("https://example.com/a",), "exact"), Offer(("https://example.com/*",), "kind"),
                Offer(("*",), "all", True, "every web page"),
            ),
        ),
        ("claude", "Edit", {"file_path": "/repo/src/a.ts"}, (Offer(("Edit(//repo/src/a.ts)",), "exact"),)),
        ("claude", "WebFetch", {"url": "https://example.com/a"}, (Offer(("WebFetch(domain:example.com)",), "kind"),)),
        ("claude", "mcp__shop__buy", {"a": 1}, (Offer(("mcp__shop__buy",), "all", False, "every use of mcp__shop__buy"),)),
        ("codelia", "edit", {"path": "/repo/a"}, (Offer(('{"tool": "edit"}',), "all", True, "every file edit"),)),
    ],
)  # fmt: skip
def test_other_tools_offer_the_call_its_folder_or_host_and_the_rest_by_its_name(
    dialect: str, tool: str, value: dict[str, Any], found: tuple[Offer, ...]
) -> None:
    policy = compiled(dialect)
    assert offered(policy, call_of({"dialect": dialect, "tool": tool, "input": value})) == found


def test_entries_that_are_no_rules_are_offered_as_they_are_and_break_nothing() -> None:
    policy, call = compiled("codelia"), shell_call("codelia", "git tag v1")
    for entry in ("{", "[]", "null", '{"tool": 1}', "*"):
        assert offers(policy, call, policy.evaluate(call), (entry,))


LINES = ("git tag v1", "git tag v1 && npm test", "ls > f", "echo $X | sort", "rm -rf a; make all", "a=1 b", "")


@given(
    dialect=st.sampled_from(DIALECTS),
    profile=st.sampled_from(PROFILES),
    line=st.sampled_from(LINES) | st.text("git npm x;&|$>*'\" \n", max_size=16),
)
def test_a_choice_that_leaves_nothing_out_lets_the_call_through(dialect: str, profile: str, line: str) -> None:
    policy, call = compiled(dialect, profile), shell_call(dialect, line)
    for one in offered(policy, call):
        if not one.still_asked:
            assert with_entries(policy, call, one.entries) is Verdict.ALLOW
        else:
            assert with_entries(policy, call, one.entries) is Verdict.ASK


def test_nothing_is_offered_of_a_call_that_is_allowed_or_denied() -> None:
    policy = compiled("opencode", config={"permission": {"bash": {"ls": "allow", "rm *": "deny"}}})
    assert [offered(policy, shell_call("opencode", line)) for line in ("ls", "rm x")] == [(), ()]


def test_a_call_of_very_many_parts_is_tried_in_no_choice() -> None:
    assert of_line("opencode", " && ".join(f"git tag v{number}" for number in range(16)))
    assert of_line("opencode", " && ".join(f"git tag v{number}" for number in range(17))) == ()
