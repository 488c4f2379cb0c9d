"""The dialect against a slow reference written from the specification, and the laws that hold for any rules."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy, strictest
from ledger.policy.toolrules import ToolGrant

CWD = "/p"

# --- the reference: one sentence of the rules at a time ----------------------------------------------------------------


class R(NamedTuple):
    action: str
    text: str
    layer: int


def parts_of(rule: R) -> tuple[str, str | None]:
    found = re.fullmatch(r"([^(]+)\((.*)\)", rule.text)
    return (rule.text, None) if not found else (found[1], None if found[2] == "*" else found[2])


def tier(rule: R) -> int:
    """Tier 2 = Tool(specifier); tier 1 = exact tool or Tool(*); tier 0 = tool-name glob or bare mcp__server."""
    tool, specifier = parts_of(rule)
    if specifier is not None:
        return 2
    return 0 if "*" in tool or (tool.startswith("mcp__") and tool.count("__") == 1) else 1


def glob(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(glob(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    return bool(text) and pattern[0] == text[0] and glob(pattern[1:], text[1:])


def star(pattern: str, text: str) -> bool:
    """`x *` also matches bare `x`; `x:*` at the end is `x *`."""
    pattern = re.sub(r":\*$", " *", pattern)
    return glob(pattern, text) or (pattern.endswith(" *") and glob(pattern[:-2], text))


def is_about(rule: R, tool: str) -> bool:
    """A rule about a whole tool; an allow needs the name, or the literal server in front of its star."""
    name, _ = parts_of(rule)
    server = name.startswith("mcp__") and name.count("__") == 1 and tool.startswith(name + "__")
    if rule.action == "allow" and "*" in name and not re.match(r"mcp__[a-z]+__", name):
        return False
    return glob(name, tool) or server


def wide(rule: R, command: list[str]) -> bool:
    """Deny and ask: exact or a prefix ending at a word, and behind wrappers."""
    tool, specifier = parts_of(rule)
    if specifier is None:
        return is_about(rule, "Bash")
    texts = [" ".join(command)] + ([" ".join(command[1:])] if command[0] == "sudo" else [])
    if tool != "Bash":
        return False
    if "*" in specifier:
        return any(star(specifier, text) for text in texts)
    return any(text == specifier or text.startswith(specifier + " ") for text in texts)


def narrow(rule: R, command: list[str]) -> bool:
    """Allow: exact, unless `*`."""
    tool, specifier = parts_of(rule)
    if specifier is None:
        return is_about(rule, "Bash")
    return tool == "Bash" and star(specifier, " ".join(command))


def decided(matching: list[R]) -> str | None:
    """The highest tier decides; inside it deny > ask > allow; a lower layer does not lift what a higher one restricts."""
    if not matching:
        return None
    top = [rule for rule in matching if tier(rule) == max(map(tier, matching))]
    action = min((rule.action for rule in top), key=["deny", "ask", "allow"].index)
    rank = max(rule.layer for rule in top if rule.action == action)
    above = [rule.action for rule in matching if rule not in top and rule.layer > rank]
    return min([action, *above], key=["deny", "ask", "allow"].index)


def unit(command: list[str], rules: list[R], granted: bool) -> str:
    matching = [rule for rule in rules if (narrow if rule.action == "allow" else wide)(rule, command)]
    verdict = decided(matching)
    if verdict is None:
        return "allow" if granted else "ask"
    allowing = [rule for rule in matching if rule.action == "allow" and tier(rule) == max(map(tier, matching))]
    exact = any("*" not in (parts_of(rule)[1] or "*") for rule in allowing)
    if verdict == "allow" and not exact and any(near(rule, command) for rule in rules):
        return "ask"
    return verdict


def near(rule: R, command: list[str]) -> bool:
    """All words of a deny are there, in another order."""
    tool, specifier = parts_of(rule)
    if rule.action == "allow" or tool != "Bash" or specifier is None:
        return False
    words = re.sub(r":\*$", " *", specifier).split()
    while words and words[-1] == "*":
        words.pop()
    return bool(words) and all(word in command for word in words)


def reference(commands: list[list[str]], rules: list[R], plain: bool, granted: bool) -> str:
    verdicts = [unit(command, rules, granted) for command in commands] + ([] if plain else ["ask"])
    return min(verdicts, key=["deny", "ask", "allow"].index)


# --- what is compared --------------------------------------------------------------------------------------------------

words = st.sampled_from(["git", "push", "--force", "x", "main"])
programs = st.sampled_from(["git", "x"])
commands = st.tuples(programs, st.lists(words, max_size=3)).flatmap(
    lambda command: st.sampled_from([[command[0], *command[1]], ["sudo", command[0], *command[1]]])
)
specifiers = st.lists(words, min_size=1, max_size=3).flatmap(
    lambda chosen: st.sampled_from([f"Bash({' '.join(chosen)}{tail})" for tail in ("", " *", "*", ":*", " * main")])
)
texts = st.one_of(specifiers, st.sampled_from(["Bash", "Bash(*)", "*", "B*", "Read", "mcp__a"]))
rules = st.lists(st.builds(R, st.sampled_from(["allow", "ask", "deny"]), texts, st.integers(0, 1)), max_size=6)
lines = st.tuples(
    st.lists(commands, min_size=1, max_size=3),
    st.sampled_from([" && ", "; ", " | ", "\n"]),
    st.sampled_from(["", " &"]),
)


def layers_of(written: list[R]) -> tuple[Layer, ...]:
    """One layer for each rank, its rules in the order given."""
    return tuple(
        Layer(
            f"layer {rank}",
            config={
                "permissions": {
                    action: [rule.text for rule in written if rule.layer == rank and rule.action == action]
                    for action in ("allow", "ask", "deny")
                }
            },
        )
        for rank in (0, 1)
    )


def verdict(written: list[R], tool: str, value: Any, profile: str = "faithful", *, granted: bool = False) -> Verdict:
    policy = compile_policy(PolicySource("betcode", layers_of(written), {"profile": profile, "cwd": CWD}))
    grants = [ToolGrant("g", tool, tool)] if granted else []
    return policy.evaluate(Call(tool, (), tool, value), grants).verdict


@given(line=lines, written=rules, granted=st.booleans())
def test_a_line_gets_the_verdict_of_the_reference(
    line: tuple[list[list[str]], str, str], written: list[R], granted: bool
) -> None:
    chosen, joint, tail = line
    source = joint.join(map(" ".join, chosen)) + tail
    expected = reference(chosen, written, plain=not tail, granted=granted)
    assert verdict(written, "Bash", {"command": source}, granted=granted).value == expected


mcp_texts = st.sampled_from(
    ["mcp__a", "mcp__a__*", "mcp__a__get", "mcp__*", "mcp__a__g*", "*", "mcp__*__get", "mcp__b"]
)
mcp_rules = st.lists(st.builds(R, st.sampled_from(["allow", "ask", "deny"]), mcp_texts, st.integers(0, 1)), max_size=5)


@given(tool=st.sampled_from(["mcp__a__get", "mcp__a__put", "mcp__ab__get"]), written=mcp_rules)
def test_an_mcp_tool_gets_the_verdict_of_the_reference(tool: str, written: list[R]) -> None:
    expected = decided([rule for rule in written if is_about(rule, tool)]) or "ask"
    assert verdict(written, tool, {}).value == expected


@given(line=lines, written=rules, granted=st.booleans())
def test_the_hardened_profile_is_never_looser(
    line: tuple[list[list[str]], str, str], written: list[R], granted: bool
) -> None:
    value = {"command": line[1].join(map(" ".join, line[0])) + line[2]}
    faithful, hardened = (verdict(written, "Bash", value, name, granted=granted) for name in ("faithful", "hardened"))
    assert strictest([faithful, hardened]) is hardened


@given(
    line=lines,
    written=rules,
    added=st.sampled_from(["{} && rm y", "sudo {}", "{} > out", "{} $(rm y)", "({})", "A=1 {}", "bash -c '{}'"]),
)
def test_a_part_a_wrapper_or_a_redirection_never_loosens_the_hardened_profile(
    line: tuple[list[list[str]], str, str], written: list[R], added: str
) -> None:
    source = line[1].join(map(" ".join, line[0]))
    before = verdict(written, "Bash", {"command": source}, "hardened")
    after = verdict(written, "Bash", {"command": added.format(source)}, "hardened")
    assert strictest([before, after]) is after
