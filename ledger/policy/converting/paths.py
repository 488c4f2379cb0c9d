"""Path patterns of tool rules as wildcards, wildcards as path patterns, and what of a path a command names."""

from __future__ import annotations

from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.listing import ListedRule
from ledger.policy.neutral import Neutral, PatternForm

_ODD: Final = frozenset("?[\\")
_ROOTS: Final = ("/", "~", "..", "./..")
ELSEWHERE: Final = ("user", "flag", "managed")
"""Layers of Claude Code in which `/x` is not below the project."""


def flat_of_ignore(rule: ListedRule, *, allows: bool) -> tuple[list[str] | None, bool]:
    """A pattern as in .gitignore as wildcards, or None where that cannot be said; and whether they say exactly as much."""
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
    """A pattern of an allow of BetCode's, from the working directory, as wildcards; None where that cannot be said."""
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
    """A wildcard over paths as in .gitignore; None where that cannot be said. It starts with `/` unless at any depth."""
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
    """The rules with those about commands that path rules of Claude Code and BetCode imply.

    A deny of a path there denies `cat` of it too; elsewhere a command that names the file is.
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
