"""The narrowest rules of each dialect that match one call. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledger.core.policy import Call, Layer, Verdict
from ledger.policy.asked import shell_tool
from ledger.policy.check_questions import JudgedCall
from ledger.policy.opencode.names import ACTION_ONLY
from ledger.policy.rule_list import TOOL_RULES, command_entry, wildcards
from ledger.policy.toolrules.calls import WEB_FETCH, inputs_of
from ledger.policy.toolrules.domains import host_of
from ledger.policy.toolrules.pathrules import ACCESS_RULE, access_of, exact_path, is_path_tool
from ledger.policy.toolrules.paths import SEARCHERS

_SKILL: Final = "skill_load"


class NamedEntry(NamedTuple):
    """One entry of a permission that matches a call.

    `because`: the reason why it matches more than the call, else None.
    """

    permission: str
    entry: str
    because: str | None = None


def named_call(dialect: str, call: Call, judged: JudgedCall) -> tuple[NamedEntry, ...]:
    """Return the narrowest entries for all parts of a call that are not allowed, and for the calls it depends on."""
    found = [
        _pattern(dialect, one.permission, text)
        for one, evaluation in judged.first
        if evaluation.verdict is not Verdict.ALLOW
        for text in one.patterns
    ]
    if judged.own.verdict is not Verdict.ALLOW:
        parts = [part for part in judged.own.parts if part.inside is None and part.verdict is not Verdict.ALLOW]
        found += _of_texts(dialect, call, [part.text for part in parts])
    return tuple(dict.fromkeys(found))


def named_whole(dialect: str, call: Call, judged: JudgedCall) -> tuple[NamedEntry, ...]:
    """Return the narrowest entries for a call as a whole: its command line, or its other subjects."""
    line = call.input.get("command") if isinstance(call.input, Mapping) else None
    if call.permission == shell_tool(dialect) and isinstance(line, str):
        return tuple(_of_texts(dialect, call, [line.strip()]))
    return tuple(dict.fromkeys(_of_texts(dialect, call, [part.text for part in judged.own.parts])))


def _of_texts(dialect: str, call: Call, texts: Sequence[str]) -> Iterator[NamedEntry]:
    permission = call.permission
    if permission == shell_tool(dialect):
        yield from (_command(dialect, permission, text) for text in texts)
    elif dialect in TOOL_RULES:
        yield from _tool_rules(dialect, call, texts)
    elif dialect == "codelia":
        yield from (_codelia(permission, text) for text in texts)
    else:
        yield from (_pattern(dialect, permission, text) for text in texts)


def _command(dialect: str, shell: str, text: str) -> NamedEntry:
    wild = next((one for one in wildcards(dialect) if one in text), None)
    entry = command_entry(dialect, shell, text)
    return NamedEntry(
        shell, entry, f"`{wild}` in a rule stands for any text, so none names `{text}` alone" if wild else None
    )


def _every(permission: str, entry: str) -> NamedEntry:
    return NamedEntry(permission, entry, f"the narrowest rule is about every call of `{permission}`")


def _pattern(dialect: str, permission: str, text: str) -> NamedEntry:
    if text == "*" or (dialect == "opencode" and permission in ACTION_ONLY):
        return _every(permission, "*")
    if permission == "external_directory" and text.endswith("/*"):
        return NamedEntry(
            permission, text, f"the narrowest rule, `{permission}` `{text}`, is about everything below that folder"
        )
    wild = next((one for one in "*?" if one in text), None)
    return NamedEntry(
        permission, text, f"`{wild}` in a rule stands for any text, so none names `{text}` alone" if wild else None
    )


def _codelia(tool: str, text: str) -> NamedEntry:
    if tool == _SKILL and text != tool:
        return NamedEntry(tool, json.dumps({"tool": tool, "skill_name": text}))
    return _every(tool, json.dumps({"tool": tool}))


def _tool_rules(dialect: str, call: Call, texts: Iterable[str]) -> Iterator[NamedEntry]:
    tool, inputs = inputs_of(call)
    if is_path_tool(tool) and all(text.startswith("/") for text in texts):
        name = ACCESS_RULE[access_of(tool)] if dialect == "claude" else tool
        folder = tool in SEARCHERS
        for text in texts:
            entry = exact_path(name, text)
            yield NamedEntry(
                tool, entry, f"the narrowest rule, `{entry}`, is about everything below that folder" if folder else None
            )
        return
    hosts = [host_of(value) for value in inputs] if tool == WEB_FETCH else []
    if not hosts or None in hosts:
        yield _every(tool, tool)
        return
    for host in hosts:
        entry = f"{WEB_FETCH}(domain:{host})"
        yield NamedEntry(tool, entry, f"the narrowest rule, `{entry}`, is about every page there")


def config_of(dialect: str, named: Sequence[NamedEntry], action: Verdict, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return a configuration of the dialect with these entries, which overrides no other rule of the layers below."""
    if dialect in TOOL_RULES:
        return {"permissions": {action.value: [one.entry for one in named]}}
    if dialect == "codelia":
        return {"permissions": {action.value: [json.loads(one.entry) for one in named]}}
    section: dict[str, dict[str, str]] = {}
    for one in named:
        section.setdefault(one.permission, {**_whole(layers, one.permission)})[one.entry] = action.value
    return {"permission": section}


def _whole(layers: Sequence[Layer], permission: str) -> dict[str, str]:
    """Return the single action of a permission below, as a pattern: an object in its place would drop it."""
    found: dict[str, str] = {}
    for layer in layers:
        config = layer.config if layer.trusted and isinstance(layer.config, Mapping) else {}
        for name in ("tools", "permission"):
            section = config.get(name)
            value = section.get(permission) if isinstance(section, Mapping) else None
            if isinstance(value, bool):
                value = "allow" if value else "deny"
            if value is not None:
                found = {"*": value} if isinstance(value, str) else {}
    return found
