"""Choices of grants for one call: from the call alone to a family of calls, each tried before it is offered.

Nothing here decides. An entry is the content of a grant in the dialect. A choice whose entries lift nothing of the call
is left out. Families of commands that delete, or act with other rights, are never offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from ledger.core.addresses import split_address
from ledger.core.indexed_grants import with_more
from ledger.core.limits import PATTERN_LENGTH_BYTES
from ledger.core.policy import Call, Evaluation, Grant, Offer, Policy, Verdict
from ledger.policy.acceptance import TRIED_COUNT, still_asked
from ledger.policy.check_questions import JudgedCall
from ledger.policy.codelia.rule import granted_rule
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import DIALECTS, dialect_of
from ledger.policy.exactly import named_call
from ledger.policy.families import Family, families
from ledger.policy.rule_list import WHOLE

__all__ = ["narrowed", "offers"]

_EVERY: Final = {
    "edit": "every file edit",
    "read": "every file read",
    "shell": "every command",
    "fetch": "every web page",
    "search": "every web search",
    "task": "every sub-agent",
}
_FILES: Final = ("edit", "read")


@cache
def _kinds() -> dict[str, str]:
    """Return the kinds of the built-in tools of all dialects, by tool name."""
    return {name: kind for dialect in DIALECTS.values() for name, kind in dialect.language.tool_kinds.items()}


def offers(
    policy: Policy, call: Call, evaluation: Evaluation, given: Iterable[str] = (), standing: Sequence[Grant] = ()
) -> tuple[Offer, ...]:
    """Return the choices for a call with the verdict ask, the narrowest first; nothing for any other call.

    A call of more than `TRIED_COUNT` parts has none: trying them all would cost more than judging the call.
    `given` are entries suggested by the caller; they come last. `standing` are the grants in force.
    """
    if evaluation.verdict is not Verdict.ASK or len(evaluation.parts) > TRIED_COUNT:
        return ()
    dialect = dialect_of(policy.source)
    is_shell = call.permission == dialect.shell_permission
    found = [*(_of_commands(policy, call, evaluation) if is_shell else _of_tool(policy, call, evaluation))]
    suggested = tuple(given)
    if not is_shell:
        found += _suggested(call.permission, suggested)
    elif _is_glued(found, suggested):
        found += [Offer(suggested, "kind")] if dialect.language.offers_glued else []
    elif not _is_forbidden(policy, call, evaluation, suggested):
        found += _suggested(call.permission, suggested, is_wide=any(map(_is_open, suggested)))
    return tuple(_worth(policy, call, evaluation, found, standing))


def narrowed(policy: Policy, call: Call, evaluation: Evaluation, entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries that an `always` of the hardened profile grants: the call alone instead of a forbidden family.

    Entries of Codelia's own confirm request are kept, because the request shows its rules word for word.
    """
    dialect = dialect_of(policy.source)
    is_shell = call.permission == dialect.shell_permission
    if not is_shell or dialect.language.keeps_suggestions or policy.source.options.get("profile") == "faithful":
        return entries
    if evaluation.verdict is not Verdict.ASK or not _is_forbidden(policy, call, evaluation, entries):
        return entries
    return next((one.entries for one in offers(policy, call, evaluation) if one.reach == "exact"), ())


def _worth(
    policy: Policy, call: Call, evaluation: Evaluation, choices: Iterable[Offer], standing: Sequence[Grant]
) -> Iterator[Offer]:
    """Yield the choices that lift something, each once, with the parts that are still asked about."""
    seen: set[frozenset[str]] = set()
    covered = False
    for one in choices:
        key = frozenset(one.entries)
        if not key or key in seen or not all(map(_fits, one.entries)) or len(key) > TRIED_COUNT:
            continue
        seen.add(key)
        left = still_asked(policy, call, evaluation, one.entries, standing)
        if left and covered:
            continue
        covered = covered or not left
        if not left or _lifts_part(policy, call, evaluation, with_more(standing, _granted(call, one.entries))):
            yield Offer(one.entries, one.reach, one.wide, one.name, left)


def _lifts_part(policy: Policy, call: Call, before: Evaluation, grants: Sequence[Grant]) -> bool:
    texts = [part.text for part in before.parts if part.verdict is Verdict.ASK and part.text and part.inside is None]
    return len(texts) > 1 and any(
        _allows(policy, Call(call.permission, (text,), cwd=call.cwd, agent=call.agent), grants) for text in texts
    )


def _granted(call: Call, entries: Iterable[str]) -> tuple[Grant, ...]:
    return tuple(Grant(f"offered {number}", call.permission, entry) for number, entry in enumerate(entries))


def _allows(policy: Policy, call: Call, grants: Sequence[Grant]) -> bool:
    return policy.evaluate(call, grants).verdict is Verdict.ALLOW


def _fits(entry: str) -> bool:
    return len(entry.encode("utf-8", "surrogatepass")) <= PATTERN_LENGTH_BYTES


# --- commands


def _of_commands(policy: Policy, call: Call, evaluation: Evaluation) -> Iterator[Offer]:
    """Yield the commands alone, then their families, then their wider families."""
    parts = [part for part in evaluation.parts if part.verdict is Verdict.ASK and part.inside is None]
    texts = list(dict.fromkeys(part.text for part in parts if part.text))[:TRIED_COUNT]
    exact = {text: _accepted(policy, call, text, _exactly(dialect_of(policy.source), text)) for text in texts}
    yield Offer(tuple(entry for entry in exact.values() if entry), "exact")
    wider = {text: _families(policy, call, text) for text in texts}
    for step in range(max(map(len, wider.values()), default=0)):
        taken = {text: found[min(step, len(found) - 1)] for text, found in wider.items() if found}
        kept = {text: taken[text].words if text in taken else exact[text] for text in texts}
        wide = any(one.is_wide for one in taken.values())
        entries = tuple(dict.fromkeys(entry for entry in kept.values() if entry))
        yield Offer(entries, "all" if step else "kind", wide)


def _exactly(dialect: Dialect, text: str) -> str | None:
    return None if any(one in text for one in dialect.language.wildcards) else dialect.notation.command_entry(text)


def _accepted(policy: Policy, call: Call, text: str, entry: str | None) -> str | None:
    alone = Call(call.permission, (text,), cwd=call.cwd, agent=call.agent)
    return entry if entry and _allows(policy, alone, _granted(call, (entry,))) else None


def _families(policy: Policy, call: Call, text: str) -> list[Family]:
    """Return the families of one command as entries of the dialect, those that would allow it."""
    dialect = dialect_of(policy.source)
    found = [Family(dialect.notation.family_entry(f"{one.words} *"), is_wide=one.is_wide) for one in families(text)]
    return [one for one in found if _accepted(policy, call, text, one.words)]


def _is_open(entry: str) -> bool:
    """Return whether an entry matches more than one command."""
    return "*" in entry or entry.startswith("{") or "(" not in entry


def _is_forbidden(policy: Policy, call: Call, evaluation: Evaluation, entries: Iterable[str]) -> bool:
    """Return whether suggested entries hold the family of a command for which no family is offered."""
    alone = [part.text for part in evaluation.parts if part.verdict is Verdict.ASK and part.text]
    without = [text for text in alone[:TRIED_COUNT] if not families(text)]
    opened = [entry for entry in entries if _is_open(entry) and entry not in without]
    return any(_accepted(policy, call, text, entry) for entry in opened for text in without)


def _is_glued(found: Iterable[Offer], entries: Iterable[str]) -> bool:
    """Return whether entries differ from families already offered only by the blank before the `*`."""
    glued = {entry.removesuffix("*") + " *" for entry in entries if entry.endswith("*") and not entry.endswith(" *")}
    return bool(glued) and any(glued <= set(one.entries) for one in found)


# --- other tools


def _of_tool(policy: Policy, call: Call, evaluation: Evaluation) -> Iterator[Offer]:
    """Yield the call alone if a rule can name it, then its folder or host."""
    dialect = dialect_of(policy.source)
    if dialect.language.last_match:
        exact = tuple(part.text for part in evaluation.parts if part.verdict is Verdict.ASK)
        if not any(set("*?") & set(text) for text in exact):
            yield Offer(exact, "exact")
            yield Offer(tuple(dict.fromkeys(_around(call.permission, exact))), "kind")
        return
    named = [one for one in named_call(dialect, call, JudgedCall(policy, call)) if one.permission == call.permission]
    entries = tuple(one.entry for one in named)
    if all(one.because is None for one in named):
        yield Offer(entries, "exact")
    else:
        yield from _suggested(call.permission, entries)


def _around(permission: str, entries: Sequence[str]) -> Iterator[str]:
    """Yield the folder of a file, or the host of an address, with everything below it."""
    for entry in entries:
        if permission in _FILES and "/" in entry and not entry.startswith("/"):
            yield f"{entry.rpartition('/')[0]}/*"
        elif permission == "webfetch" and (address := split_address(entry)).hostname:
            yield f"{address.scheme}://{address.netloc}/*"


def _suggested(permission: str, entries: tuple[str, ...], *, is_wide: bool = False) -> Iterator[Offer]:
    """Yield suggested entries, with a label for those about a whole tool."""
    if not entries:
        return
    whole = any(_is_whole(permission, entry) for entry in entries)
    kind = _kinds().get(permission)
    name = (_EVERY.get(kind or "") or f"every use of {permission}") if whole and len(entries) == 1 else None
    wide = is_wide or (whole and kind is not None) or WHOLE in entries
    yield Offer(entries, "all" if whole or is_wide else "kind", wide, name)


def _is_whole(permission: str, entry: str) -> bool:
    rule = granted_rule(permission, entry) if entry.startswith("{") else None
    return entry in (WHOLE, permission) if rule is None else rule.whole
