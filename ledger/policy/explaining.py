"""Why a call is allowed, asked or denied: which rule won, which nearly did, and what to write to change it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from ledger.policy.asked import shell_tool
from ledger.policy.checking import Judged
from ledger.policy.errors import PolicyError
from ledger.policy.listing import TOOL_RULES, Listed, always_config, listed_rules, rule_config
from ledger.policy.model import Call, Layer, Policy, PolicySource, RuleRef, Verdict

Compile = Callable[[PolicySource], Policy]
"""Makes a policy that judges with the same facts about files."""

CLOSE_COUNT: Final = 3
"""Rules that do not match and are shown all the same, for each call."""

_SUGGESTED: Final = {"claude": "local"}
"""The name of the layer where a suggestion would be written, where names have a meaning."""


class Near(msgspec.Struct, frozen=True):
    """A rule that did not decide. `matches` says that it is about the call and that another came before it."""

    rule: Listed
    matches: bool
    why: str


class Fix(msgspec.Struct, frozen=True):
    """What to do for another verdict; `config` is to be added above all other layers, or None where words must do."""

    verdict: Verdict
    text: str
    config: dict[str, Any] | None = None


class Explanation(msgspec.Struct, frozen=True):
    """A judged call, the rules that nearly decided it, and the ways to change its verdict."""

    call: Call
    judged: Any
    near: tuple[Near, ...]
    fixes: tuple[Fix, ...]


def explain(policy: Policy, call: Call, compile_again: Compile) -> Explanation:
    """Judge a call and say why. Every fix with a configuration was tried and leads to its verdict."""
    judged = Judged(policy, call)
    rules = listed_rules(policy)
    near = tuple(_near(policy, call, judged, rules, compile_again))
    fixes = tuple(_fixes(policy, call, judged, compile_again))
    return Explanation(call, judged, near, fixes)


def verdict_of(policy: Policy, call: Call) -> Verdict:
    """The strictest verdict on the call and on what must be allowed before it."""
    return Judged(policy, call).verdict


def _near(
    policy: Policy, call: Call, judged: Judged, rules: tuple[Listed, ...], compile_again: Compile
) -> Iterator[Near]:
    deciding = set(judged.rules) | {ref for found in judged.all for part in found.parts for ref in part.rules}
    close: list[Near] = []
    for rule in rules:
        if rule.ref in deciding:
            continue
        if _names(rule, policy, call, compile_again):
            yield Near(rule, True, f"it matches, but {_winner(judged)}")
        elif _looks_like(rule, call):
            close.append(Near(rule, False, "it begins alike and does not match"))
    yield from close[:CLOSE_COUNT]


def _winner(judged: Judged) -> str:
    rules = judged.rules
    return f"`{rules[0].text}` comes before it" if rules else (judged.reason or "the analysis comes before it")


def _names(rule: Listed, policy: Policy, call: Call, compile_again: Compile) -> bool:
    """Whether a rule would decide about any part if it stood alone."""
    layer = Layer(rule.ref.layer or "rule", config=rule_config(policy.source.dialect, rule))
    try:
        alone = compile_again(msgspec.structs.replace(policy.source, layers=(layer,)))
    except PolicyError:
        return False
    return any(_is(ref, rule) for found in Judged(alone, call).all for ref in _refs(found))


def _refs(found: Any) -> Iterator[RuleRef]:
    yield from found.rules
    for part in found.parts:
        yield from part.rules


def _is(ref: RuleRef, rule: Listed) -> bool:
    """Built-in rules are there in any case, and do not count."""
    return ref.text == rule.ref.text


def _looks_like(rule: Listed, call: Call) -> bool:
    """Whether a rule is about the same program as a command line."""
    line = call.input.get("command") if isinstance(call.input, dict) else None
    texts = [line] if isinstance(line, str) else list(call.patterns)
    first = rule.pattern.split(" ", 1)[0].rstrip(":*")
    same_tool = rule.permission.lower() in (call.permission.lower(), "shell")
    return same_tool and bool(first) and any(first in text.split() for text in texts)


def _fixes(policy: Policy, call: Call, judged: Judged, compile_again: Compile) -> Iterator[Fix]:
    if judged.verdict is Verdict.DENY:
        yield from _undeny(judged)
        return
    if judged.verdict is Verdict.ASK:
        yield from _allowing(policy, call, judged, compile_again)
    denied = _first_working(policy, call, Verdict.DENY, _deny_configs(policy.source.dialect, call), compile_again)
    if denied is not None:
        yield Fix(Verdict.DENY, "to deny it, add", denied)


def _undeny(judged: Judged) -> Iterator[Fix]:
    for rule in judged.rules:
        place = (
            f" ({rule.file}:{rule.line})" if rule.file and rule.line else f" (layer {rule.layer})" if rule.layer else ""
        )
        yield Fix(Verdict.ASK, f"remove or narrow the rule `{rule.text}`{place}")


def _allowing(policy: Policy, call: Call, judged: Judged, compile_again: Compile) -> Iterator[Fix]:
    working = _first_working(policy, call, Verdict.ALLOW, _allow_configs(policy, call, judged), compile_again)
    if working is not None:
        yield Fix(Verdict.ALLOW, "to allow it, add", working)
        return
    asking = [rule for rule in judged.rules if rule.text]
    if asking:
        for rule in asking:
            yield Fix(Verdict.ALLOW, f"the rule `{rule.text}` asks; remove or narrow it")
        return
    reason = judged.reason or "the analysis of the line does not let it"
    yield Fix(Verdict.ALLOW, f"no rule allows it, because {reason}; a person may answer `once`")


def _allow_configs(policy: Policy, call: Call, judged: Judged) -> Iterator[dict[str, Any]]:
    dialect = policy.source.dialect
    first = {found.permission: found.patterns for found, one in judged.first if one.verdict is not Verdict.ALLOW}
    own = judged.own
    if own.verdict is Verdict.ALLOW and first:
        yield {"permission": {name: dict.fromkeys(patterns, "allow") for name, patterns in first.items()}}
    for entries in (own.always, _exact(dialect, call)):
        if entries:
            config = always_config(dialect, call.permission, entries)
            if first:
                config["permission"] |= {name: dict.fromkeys(patterns, "allow") for name, patterns in first.items()}
            yield config


def _exact(dialect: str, call: Call) -> tuple[str, ...]:
    """Rules that name the whole call and nothing else."""
    texts = _texts(call)
    if dialect in TOOL_RULES:
        return tuple(f"{call.permission}({text})" for text in texts) or (call.permission,)
    if dialect == "codelia":
        if call.permission != shell_tool(dialect):
            return (json.dumps({"tool": call.permission}),)
        return tuple(json.dumps({"tool": "bash", "command_glob": text}, ensure_ascii=False) for text in texts)
    return texts or ("*",)


def _deny_configs(dialect: str, call: Call) -> Iterator[dict[str, Any]]:
    entries = _exact(dialect, call)
    if dialect in TOOL_RULES:
        yield {"permissions": {"deny": list(entries)}}
    elif dialect == "codelia":
        yield {"permissions": {"deny": [json.loads(entry) for entry in entries]}}
    else:
        yield {"permission": {call.permission: dict.fromkeys(entries, "deny")}}


def _texts(call: Call) -> tuple[str, ...]:
    if call.patterns:
        return call.patterns
    line = call.input.get("command") if isinstance(call.input, dict) else None
    return (line.strip(),) if isinstance(line, str) and line.strip() else ()


def _first_working(
    policy: Policy, call: Call, wanted: Verdict, configs: Iterable[dict[str, Any]], compile_again: Compile
) -> dict[str, Any] | None:
    dialect = policy.source.dialect
    for config in configs:
        layer = Layer(_SUGGESTED.get(dialect, "suggested"), config=config)
        try:
            again = compile_again(msgspec.structs.replace(policy.source, layers=(*policy.source.layers, layer)))
        except PolicyError:
            continue
        if verdict_of(again, call) is wanted:
            return config
    return None
