"""The dialect against a slow reference written from what the program's pages say, and laws that hold for any rules."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy, strictest

CWD, HOME = "/h/p", "/h"
ORDER = ["deny", "ask", "allow"]

# --- the reference: flat lists, deny before ask before allow -------------------------------------------------------------


class R(NamedTuple):
    action: str
    text: str


def parts_of(rule: R) -> tuple[str, str | None]:
    found = re.fullmatch(r"([^(]+)\((.*)\)", rule.text)
    return (rule.text, None) if not found else (found[1], None if found[2] == "*" else found[2])


def glob(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(glob(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    return bool(text) and pattern[0] == text[0] and glob(pattern[1:], text[1:])


def matches(specifier: str, text: str) -> bool:
    """Exact unless `*`; `x:*` is the prefix x; ` *` at the end may be missing when it is the only star."""
    if specifier.endswith(":*"):
        return text == specifier[:-2] or text.startswith(specifier[:-2] + " ")
    bare = specifier.count("*") == 1 and specifier.endswith(" *") and text == specifier[:-2]
    return bare or glob(specifier, text)


def sub_command(command: list[str], rules: list[R]) -> str:
    """Deny and ask see the command behind `sudo` too, and ` *` at their end may always be missing."""
    text, inner = " ".join(command), " ".join(command[1:]) if command[0] == "sudo" else None
    found: set[str] = set()
    for rule in rules:
        tool, specifier = parts_of(rule)
        seen = [text] if inner is None or rule.action == "allow" else [text, inner]
        wide = specifier.removesuffix(" *") if specifier is not None and rule.action != "allow" else None
        if tool == "Bash" and (
            specifier is None or any(matches(specifier, one) or (wide and glob(wide, one)) for one in seen)
        ):
            found.add(rule.action)
    return min(found, key=ORDER.index, default="ask")


def whole(rule: R, action: str) -> bool:
    return rule.action == action and parts_of(rule) == ("Bash", None)


def reference(commands: list[list[str]], rules: list[R]) -> str:
    if any(whole(rule, "deny") for rule in rules):
        return "deny"
    verdict = min((sub_command(command, rules) for command in commands), key=ORDER.index)
    return "ask" if verdict == "allow" and any(whole(rule, "ask") for rule in rules) else verdict


def ignored(pattern: str, path: str) -> bool:
    """As .gitignore: a pattern without a slash in it at any depth, everything in a folder that matches."""
    pattern, path = pattern.removeprefix("./").removesuffix("/**").lower(), path.lower()
    if pattern == "**":
        return True
    names = pattern.strip("/").split("/")
    if "/" not in pattern.rstrip("/"):
        names = ["**", *names]
    given_names = path.split("/")
    last = len(given_names) - (1 if pattern.endswith("/") else 0)
    return any(walk(names, given_names[:end]) for end in range(1, last + 1))


def walk(pattern: list[str], names: list[str]) -> bool:
    if not pattern:
        return not names
    if pattern[0] == "**":
        return walk(pattern[1:], names) or (bool(names) and walk(pattern, names[1:]))
    return bool(names) and glob(pattern[0], names[0]) and walk(pattern[1:], names[1:])


def reaches(specifier: str, path: str) -> bool:
    roots = [("//", "/", specifier[1:]), ("~/", HOME, specifier[1:]), ("/", CWD, specifier), ("", CWD, specifier)]
    _, root, pattern = next(one for one in roots if specifier.startswith(one[0]))
    base = root.rstrip("/") + "/"
    return path.startswith(base) and ignored(pattern, path[len(base) :])


def file_call(tool: str, path: str, rules: list[R]) -> str:
    """`Edit(…)` is about Write, `Write(…)` about nothing; a bare rule about its own tool; reading inside is free."""
    kind = "Read" if tool == "Read" else "Edit"
    found = {
        rule.action
        for rule in rules
        for name, specifier in [parts_of(rule)]
        if (specifier is None and name == tool) or (specifier is not None and name == kind and reaches(specifier, path))
    }
    if tool == "Read" and not found & {"deny", "ask"}:
        may_edit = any(rule.action == "allow" and rule.text.startswith("Edit(") for rule in rules if covers(rule, path))
        found |= {"allow"} if path.startswith(CWD + "/") or may_edit else set()
    return min(found, key=ORDER.index, default="ask")


def covers(rule: R, path: str) -> bool:
    return parts_of(rule)[1] is not None and reaches(parts_of(rule)[1] or "", path)


# --- what is compared --------------------------------------------------------------------------------------------------

words = st.sampled_from(["push", "--force", "x", "main"])
commands = st.tuples(st.sampled_from(["tool", "prog"]), st.lists(words, max_size=3)).flatmap(
    lambda command: st.sampled_from([[command[0], *command[1]], ["sudo", command[0], *command[1]]])
)
specifiers = st.tuples(st.sampled_from(["tool", "prog"]), st.lists(words, max_size=2)).flatmap(
    lambda chosen: st.sampled_from(
        [f"Bash({' '.join([chosen[0], *chosen[1]])}{tail})" for tail in ("", " *", "*", ":*", " * main", " * x *")]
    )
)
actions = st.sampled_from(["allow", "ask", "deny"])
rules = st.lists(st.builds(R, actions, st.one_of(specifiers, st.sampled_from(["Bash", "Bash(*)", "Read"]))), max_size=6)
lines = st.tuples(st.lists(commands, min_size=1, max_size=3), st.sampled_from([" && ", "; ", " || ", "\n"]))

patterns = st.sampled_from(
    [
        "src/**",
        "src/*",
        "src",
        "src/",
        "*.ts",
        "**/*.ts",
        "src/**/*.ts",
        "/src/**",
        "./src/**",
        "**",
        "~/p/src/**",
        "//h/**",
        "~/q/*",
        "a/**/b",
        "**/b",
        "SRC/a.ts",
    ]
)
paths = st.lists(st.sampled_from(["src", "a", "b", "a.ts", "lib"]), min_size=1, max_size=4).map("/".join)
places = st.tuples(st.sampled_from([CWD, "/h/q", "/etc"]), paths).map("/".join)
path_rules = st.lists(
    st.builds(R, actions, st.one_of(st.builds("{}({})".format, st.sampled_from(["Read", "Edit", "Write"]), patterns),
                                    st.sampled_from(["Read", "Edit", "Write"]))),
    max_size=5,
)  # fmt: skip


def verdict(written: list[R], tool: str, value: Any, profile: str = "faithful") -> Verdict:
    lists = {action: [rule.text for rule in written if rule.action == action] for action in ORDER}
    layer = Layer("project", config={"permissions": lists})
    policy = compile_policy(PolicySource("claude", (layer,), {"profile": profile, "cwd": CWD, "home": HOME}))
    return policy.evaluate(Call(tool, (), tool, value)).verdict


def source(line: tuple[list[list[str]], str]) -> dict[str, str]:
    return {"command": line[1].join(map(" ".join, line[0]))}


@given(line=lines, written=rules)
def test_a_line_gets_the_verdict_of_the_reference(line: tuple[list[list[str]], str], written: list[R]) -> None:
    assert verdict(written, "Bash", source(line)).value == reference(line[0], written)


@given(tool=st.sampled_from(["Read", "Write", "Edit"]), path=places, written=path_rules)
def test_a_file_gets_the_verdict_of_the_reference(tool: str, path: str, written: list[R]) -> None:
    assert verdict(written, tool, {"file_path": path}).value == file_call(tool, path, written)


@given(line=lines, written=rules)
def test_the_hardened_profile_is_never_looser(line: tuple[list[list[str]], str], written: list[R]) -> None:
    faithful, hardened = (verdict(written, "Bash", source(line), profile) for profile in ("faithful", "hardened"))
    assert strictest([faithful, hardened]) is hardened


@given(
    line=lines,
    written=rules,
    added=st.sampled_from(["{} && rm y", "sudo {}", "{} > out", "({})", "A=1 {}", "bash -c '{}'"]),
)
def test_a_part_a_wrapper_or_a_redirection_never_loosens_the_hardened_profile(
    line: tuple[list[list[str]], str], written: list[R], added: str
) -> None:
    before = verdict(written, "Bash", source(line), "hardened")
    after = verdict(written, "Bash", {"command": added.format(source(line)["command"])}, "hardened")
    assert strictest([before, after]) is after


@given(line=lines, written=rules)
@example(line=([["tool"]], " && "), written=[R("allow", "Bash"), R("deny", "Bash(tool)")])
def test_an_argument_that_cannot_be_known_lets_nothing_through(
    line: tuple[list[list[str]], str], written: list[R]
) -> None:
    """An exact deny is about the command as it is written: with one more argument it is asked about, and not denied."""
    before = verdict(written, "Bash", source(line), "hardened")
    after = verdict(written, "Bash", {"command": f"{source(line)['command']} $(rm y)"}, "hardened")
    assert before is Verdict.ALLOW or after is not Verdict.ALLOW
