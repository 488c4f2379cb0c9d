"""Patterns of grants that a person gives in place of the offered ones: proven narrower, or wider. Pure.

The dialect's own matching is the proof: an offered entry must match everything that the given one matches. Commands
like the call are then judged with either; one that only the given entry allows shows that it is wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from ledger.core.indexed_grants import with_more
from ledger.core.policy import Call, Grant, Layer, Policy, PolicySource, Verdict
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import compile_policy, dialect_of, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.offer_limits import is_unsure, within
from ledger.policy.rule_list import ListedRule
from ledger.policy.rule_reach import similar_lines
from ledger.policy.rule_relations import covers

ASKED_COUNT: Final = 24
"""Commands, at most, by which one entry is tried."""

_OTHER: Final = "other"


def wider_entries(policy: Policy, call: Call, offered: Sequence[str], entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that are not proven to allow nothing beyond the offered ones, in their order."""
    own = [entry for entry in entries if entry not in offered]
    return tuple(
        entry
        for entry in own
        if not _is_covered(policy.source, call.permission, offered, entry) or _allows_more(policy, call, offered, entry)
    )


def uncovered(
    policy: Policy, call: Call, offered: Sequence[str], entries: Sequence[str], standing: Sequence[Grant]
) -> str | None:
    """Return the reason why granted entries do not cover a call as far as the offered ones would; None if they do.

    A call that the rules allow or deny without them is covered by any.
    """
    if policy.evaluate(call, standing).verdict is not Verdict.ASK:
        return None
    after = policy.evaluate(call, with_more(standing, _granted(call, entries)))
    if after.verdict is not Verdict.ASK:
        return None
    lifted = _lifted(policy, call, entries, standing)
    if lifted and lifted >= _lifted(policy, call, offered, standing):
        return None
    return after.reason or "no rule allows all of it"


def _lifted(policy: Policy, call: Call, entries: Sequence[str], standing: Sequence[Grant]) -> frozenset[str]:
    """Return the texts of the parts of a call that granted entries lift."""
    granted = _granted(call, entries)
    ids = {grant.grant_id for grant in granted}
    parts = policy.evaluate(call, with_more(standing, granted)).parts
    return frozenset(part.text for part in parts if part.verdict is Verdict.ALLOW and ids.intersection(part.grants))


def _granted(call: Call, entries: Iterable[str]) -> tuple[Grant, ...]:
    return tuple(Grant(f"given {number}", call.permission, entry) for number, entry in enumerate(entries))


def _is_covered(source: PolicySource, permission: str, offered: Sequence[str], entry: str) -> bool:
    """Return whether one offered entry matches everything that an entry matches, as far as the dialect can show it."""
    dialect = dialect_of(source)
    if dialect.language.last_match:
        return within(dialect, offered, (entry,)) == (entry,)
    if is_unsure(entry.replace(":*", "")):
        return False
    narrow = _listed(dialect, source, permission, entry)
    wide = [one for each in offered for one in _listed(dialect, source, permission, each)]
    return bool(narrow) and all(any(covers(dialect, one, each) for one in wide) for each in narrow)


def _listed(dialect: Dialect, source: PolicySource, permission: str, entry: str) -> tuple[ListedRule, ...]:
    """Return the rules that an entry stands for; none for one that is no rule of the dialect."""
    try:
        layer = Layer("given", config=dialect.notation.config([(permission, entry)], Verdict.ALLOW))
        return listed_rules(compile_policy(PolicySource(source.dialect, (layer,), {})))
    except (PolicyError, ValueError):
        return ()


def _allows_more(policy: Policy, call: Call, offered: Sequence[str], entry: str) -> bool:
    """Return whether some call like this one is allowed by an entry, and by none of the offered ones."""
    is_shell = call.permission == dialect_of(policy.source).shell_permission
    tried = islice(dict.fromkeys(_texts(call, entry, is_shell=is_shell)), ASKED_COUNT)
    return any(_allows(policy, call, text, (entry,)) and not _allows(policy, call, text, offered) for text in tried)


def _texts(call: Call, entry: str, *, is_shell: bool) -> Iterator[str]:
    """Yield what an entry names with its wildcards filled, then commands like that of the call."""
    yield entry.replace("*", _OTHER)
    yield from call.patterns
    line = call.input.get("command") if isinstance(call.input, Mapping) else None
    lines = [line] if isinstance(line, str) else list(call.patterns)
    for one in lines if is_shell else ():
        yield from similar_lines(one)


def _allows(policy: Policy, call: Call, text: str, entries: Sequence[str]) -> bool:
    alone = Call(call.permission, (text,), cwd=call.cwd, agent=call.agent)
    return policy.evaluate(alone, _granted(call, entries)).verdict is Verdict.ALLOW
