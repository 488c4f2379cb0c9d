"""Stricter checks of the hardened profile for files and addresses of tool calls: every other reading of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Part, RuleRef, Verdict
from ledger.policy.opencode.compiled import CompiledRules, PermissionRules, is_restricted_apart, last_match, restricting
from ledger.policy.opencode.patch import patched_files
from ledger.policy.opencode.places import OpenCodePlaces
from ledger.policy.opencode.requests import OpenCodeRequest
from ledger.policy.spelled import is_of_a_process, spelled_paths
from ledger.policy.urls import UrlReading, read_address

FETCH: Final = "webfetch"
SEARCH: Final = "grep"
_FILES: Final = frozenset({"read", "edit", "list"})
_MEMBERS: Final = ("filePath", "filepath", "file_path", "path")


def led_to(request: OpenCodeRequest, call: Call, places: OpenCodePlaces) -> tuple[str, ...]:
    """Return the patterns of the link targets of a call's paths, as far as they differ."""
    if request.permission not in _FILES:
        return ()
    found: dict[str, None] = {}
    for path in _written(request, call):
        for one in (places.absolute(path), f"{places.directory}/{path}" if not path.startswith("/") else path):
            found[places.from_worktree(places.facts.resolve(one))] = None
    return tuple(text for text in found if text not in request.patterns + request.more)


def tightened(
    judged: Evaluation, request: OpenCodeRequest, call: Call, places: OpenCodePlaces, rules: CompiledRules
) -> Evaluation:
    """Return the stricter of an evaluation and the rules on every other reading of the paths or addresses."""
    if judged.verdict is Verdict.DENY:
        return judged
    if request.permission == FETCH:
        found = list(_of_addresses(request.patterns, rules))
    elif request.permission in _FILES:
        found = list(_of_files(request, call, places, rules))
    elif request.permission == SEARCH:
        found = list(_of_search(call, places, rules))
    else:
        return judged
    strictest = max(found, key=lambda part: part.verdict is Verdict.DENY, default=None)
    if strictest is None or (judged.verdict is Verdict.ASK and strictest.verdict is Verdict.ASK):
        return judged
    message = f"Denied by rule: {strictest.rules[0].text}" if strictest.verdict is Verdict.DENY else None
    parts = (*judged.parts, strictest)
    reason = f"`{strictest.text}` is another reading of the call"
    return replace(
        judged, verdict=strictest.verdict, parts=parts, rules=strictest.rules, message=message, reason=reason
    )


def _written(request: OpenCodeRequest, call: Call) -> Iterator[str]:
    """Yield the paths of a call as they are written."""
    members: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) and call.tool_name else {}
    yield from _paths_in(members)
    edits = members.get("edits")
    for edit in edits if isinstance(edits, list | tuple) else ():
        if isinstance(edit, Mapping):
            yield from _paths_in(edit)
    patch = members.get("patchText")
    for file in patched_files(patch) if isinstance(patch, str) else ():
        yield from (path for path in (file.path, file.moved_to) if path)
    if not members:
        yield from request.patterns


def _paths_in(members: Mapping[str, Any]) -> Iterator[str]:
    yield from (path for name in _MEMBERS if isinstance(path := members.get(name), str) and path)


def _of_files(request: OpenCodeRequest, call: Call, places: OpenCodePlaces, rules: CompiledRules) -> Iterator[Part]:
    known = rules.of(request.permission)
    of_tool = None if call.tool_name in (None, request.permission) else rules.of(call.tool_name)
    for path in _written(request, call):
        for form in spelled_paths(path, places.directory, places.home, places.facts):
            text = places.from_worktree(form)
            if (rule := restricting(text, known)) is not None:
                yield _part(text, rule.action, rule.refs)
            own = None if of_tool is None else restricting(text, of_tool)
            if own is not None and is_restricted_apart(own, request.permission):
                yield _part(text, own.action, own.refs)
            if is_of_a_process(form) or "\0" in path:
                yield _part(path.replace("\0", "␀"), Verdict.ASK)


def _of_search(call: Call, places: OpenCodePlaces, rules: CompiledRules) -> Iterator[Part]:
    """Yield the files of which a search shows lines, judged by the rules for `read`."""
    members: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) else {}
    for name in ("path", "include"):
        path = members.get(name)
        if isinstance(path, str) and path:
            for form in spelled_paths(path, places.directory, places.home, places.facts):
                text = places.from_worktree(form)
                if (rule := restricting(text, rules.of("read"))) is not None:
                    yield _part(text, Verdict.ASK, rule.refs)


def _of_addresses(patterns: Sequence[str], rules: CompiledRules) -> Iterator[Part]:
    known = rules.of(FETCH)
    for pattern in patterns:
        address = read_address(pattern)
        for text in _spellings(address):
            if (rule := restricting(text, known)) is not None:
                yield _part(text, rule.action, rule.refs)
        if not address.texts and known.restricting:
            yield _part(pattern, Verdict.ASK)
        plain = address.texts[0] if address.texts else ""
        if plain and not address.is_clear and not _allowed(plain, known):
            yield _part(plain, Verdict.ASK)


def _spellings(address: UrlReading) -> Iterator[str]:
    """Yield the texts that a rule may be written for; only the host of an address that cannot be parsed."""
    yield from address.texts
    if not address.texts:
        yield from (f"{scheme}://{host}/" for host in sorted(address.hosts) for scheme in ("https", "http"))


def _allowed(text: str, rules: PermissionRules) -> bool:
    """Return whether a rule allows an address, with or without the slash at its end."""
    found = [last_match(one, rules) for one in (text, text.removesuffix("/"))]
    return any(rule is not None and rule.action is Verdict.ALLOW for rule in found)


def _part(text: str, verdict: Verdict, rules: tuple[RuleRef, ...] = ()) -> Part:
    return Part(text, verdict, rules, liftable=False)
