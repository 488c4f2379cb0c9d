"""Conversion of path patterns between tool rules and wildcards, and of path rules to rules for commands."""

from __future__ import annotations

from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.neutral import Neutral, PatternForm
from ledger.policy.rule_list import ListedRule

_ODD: Final = frozenset("?[\\")
_ROOTS: Final = ("/", "~", "..", "./..")
ELSEWHERE: Final = ("user", "flag", "managed")
"""Layers of Claude Code in which `/x` is not relative to the project."""


def flat_of_ignore(rule: ListedRule, *, allows: bool) -> tuple[list[str] | None, bool]:
    """Return a pattern in .gitignore syntax as wildcards, and whether they match exactly the same paths.

    None where wildcards have no equivalent.
    """
    text = rule.pattern
    anchored = text.startswith("/") and not text.startswith("//")
    path = text.removeprefix("./").removeprefix("/") if anchored or text.startswith("./") else text
    if path.startswith((*_ROOTS, "!", "#")) or "/../" in path or (anchored and rule.ref.layer in ELSEWHERE):
        return None, False
    if path.startswith("**/"):
        path, anchored = path.removeprefix("**/"), False
    below = path.endswith("/**")
    bare = path.removesuffix("/**").rstrip("/")
    anywhere = not anchored and ("/" not in bare or text.startswith("**/"))
    loose = "".join("?" if one in _ODD else one for one in bare)
    odd = loose != bare or "*" in (bare[1:] if anywhere else bare)
    if not bare.strip("*"):
        return (["*"], True) if not anchored else (None, False)
    if allows and odd:
        return None, False
    texts = [f"{loose}/*"] if below and allows else [loose, f"{loose}/*"]
    if anywhere and not loose.startswith("*"):
        texts += [f"*/{one}" for one in texts]
    return [one.replace("**", "*") for one in texts], not odd


def flat_of_rooted(text: str) -> list[str] | None:
    """Return the path pattern of a BetCode allow as wildcards; None without equivalent.

    The pattern is relative to the working directory.
    """
    if text.startswith((*_ROOTS, "!")) or set(text) & _ODD or "/../" in text:
        return None
    path = text.removeprefix("./")
    below = path.endswith("/**")
    bare = path.removesuffix("/**")
    anywhere = bare.startswith("**/")
    bare = bare.removeprefix("**/")
    if "*" in bare or not bare:
        return None
    texts = [bare, f"{bare}/*"] if below else [bare]
    return texts + [f"*/{one}" for one in texts] if anywhere else texts


def ignore_of_flat(text: str) -> str | None:
    """Return a wildcard over paths in .gitignore syntax; None without equivalent.

    The result starts with `/` unless it matches at any depth.
    """
    if "?" in text or "[" in text or "\\" in text or text.startswith(("!", "#", *_ROOTS)) or "/../" in text:
        return None
    if "*" not in text:
        return f"/{text}"
    head, _, tail = text.partition("*")
    if text == "*":
        return "/**"
    if "*" in tail or "/" in tail:
        return None
    if not head:
        return tail and f"*{tail}"
    if not head.endswith("/"):
        return None
    return f"/{head}**{f'/*{tail}' if tail else ''}"


def named_in_commands(rules: list[Neutral]) -> list[Neutral]:
    """Return the rules with the command rules that path rules of Claude Code and BetCode imply.

    In these dialects a deny of a path also denies `cat` of it. In other dialects, a deny of all commands that name the file
    takes its place.
    """
    paths = [rule for rule in rules if rule.form is PatternForm.IGNORE_PATH]
    at = len(rules)
    while at and rules[at - 1].action is Verdict.DENY:
        at -= 1
    denied = any(rule.subject == "shell" and rule.action is Verdict.DENY for rule in rules[:at])
    asks = [
        _in_commands(rule, Verdict.DENY if denied else Verdict.ASK)  # an ask here would lift that deny
        for rule in paths
        if rule.action is Verdict.ASK and rule.subject == "edit"
    ]
    denies = [_in_commands(rule, Verdict.DENY) for rule in paths if rule.action is Verdict.DENY]
    return [*rules[:at], *asks, *rules[at:], *denies]


def _in_commands(rule: Neutral, action: Verdict) -> Neutral:
    pieces = [_longest(name) for name in rule.text.split("/")]
    piece = next((one for one in reversed(pieces) if one), "")
    verb = "denied" if action is Verdict.DENY else "asked about"
    note = f"commands that name `{piece}` are {verb} whatever they do with it" if piece else f"all commands are {verb}"
    form = PatternForm.GLOB if piece else PatternForm.ALL
    return Neutral("shell", form, f"*{piece}*" if piece else "", action, rule.source, note=note)


def _longest(name: str) -> str:
    for wild in "*?[]\\":
        name = name.replace(wild, "\0")
    return max(name.split("\0"), key=len).strip(".") and max(name.split("\0"), key=len)
