"""Conversion from "the last match wins" to "deny before ask before allow"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.policy import STRICTNESS, Verdict
from ledger.policy.matching.wildcard import compile_normalised
from ledger.policy.neutral import ANY, SUBJECTS, ConversionChange, Neutral, Notation, PatternForm

_WILD: Final = frozenset("*?")


def reachable(rules: Sequence[Neutral]) -> list[Neutral]:
    """Return the rules that can decide a call: those that no later rule covers completely."""
    return [rule for place, rule in enumerate(rules) if not any(covers(later, rule) for later in rules[place + 1 :])]


def covers(wide: Neutral, narrow: Neutral) -> bool:
    """Return whether `wide` matches every call that `narrow` matches; false when uncertain."""
    if wide.subject != narrow.subject or (wide.partial and (narrow.partial, narrow.tool) != (True, wide.tool)):
        return False
    if wide.form is PatternForm.ALL or (wide.form, wide.text) == (narrow.form, narrow.text):
        return True
    if wide.form is PatternForm.PREFIX and narrow.form in (PatternForm.PREFIX, PatternForm.EXACT):
        return narrow.text == wide.text or narrow.text.startswith(wide.text + " ")
    return (
        wide.form is PatternForm.GLOB
        and narrow.form is PatternForm.EXACT
        and compile_normalised(wide.text)(narrow.text)
    )


def overlap(one: Neutral, other: Neutral) -> bool:
    """Return whether two rules could match the same call; true when uncertain."""
    if one.subject != other.subject:
        return False
    first, second = _literal_start(one), _literal_start(other)
    return first.startswith(second) or second.startswith(first)


def _literal_start(rule: Neutral) -> str:
    if rule.form not in (PatternForm.EXACT, PatternForm.PREFIX, PatternForm.GLOB, PatternForm.NAME):
        return ""
    text = rule.text.removesuffix(" *") if rule.form is PatternForm.GLOB else rule.text
    return next((text[:place] for place, character in enumerate(text) if character in _WILD), text)


def by_strictness(rules: Sequence[Neutral], notation: Notation, changes: list[ConversionChange]) -> list[Neutral]:
    """Return rules with the same meaning for an order of deny before ask before allow."""
    kept: list[Neutral] = []
    for place, rule in enumerate(rules):
        if rule.action is Verdict.ALLOW:
            stricter = _in_the_way(rules, place, notation)
            if stricter is not None:
                text = (
                    f"the allow is left out: `{stricter.source.ref.text}` would come before it, or cannot be expressed"
                )
                changes.append(ConversionChange(rule.source, text))
                continue
        elif rule.action is Verdict.ASK and _said_by_default(rules, place, notation, changes):
            continue
        later = _softer_after(rules, place)
        if later is not None:
            changes.append(ConversionChange(rule.source, f"it now comes before `{later.source.ref.text}` too"))
        kept.append(rule)
    return kept


def _softer_after(rules: Sequence[Neutral], place: int) -> Neutral | None:
    rule = rules[place]
    softer = (one for one in rules[place + 1 :] if STRICTNESS[one.action] < STRICTNESS[rule.action])
    return next((one for one in softer if overlap(one, rule)), None)


def _said_by_default(rules: Sequence[Neutral], place: int, notation: Notation, changes: list[ConversionChange]) -> bool:
    """Return whether an ask is redundant because the dialect asks by default."""
    rule = rules[place]
    if not notation.asks:
        return True
    if not _is_default(rules, place, notation):
        return False
    if notation.looks_freely and rule.subject == "shell":
        changes.append(
            ConversionChange(rule.source, f"{notation.name} asks by itself, but not about commands that only look")
        )
    return True


def _is_default(rules: Sequence[Neutral], place: int, notation: Notation) -> bool:
    """Return whether a rule about a whole tool, the first rule for it, repeats the program's own default to ask."""
    rule = rules[place]
    return (
        rule.subject not in notation.free
        and rule.form is PatternForm.ALL
        and not any(one.subject == rule.subject for one in rules[:place])
    )


def _in_the_way(rules: Sequence[Neutral], place: int, notation: Notation) -> Neutral | None:
    """Return the stricter rule that would override an allow, or that the dialect cannot express; None without one."""
    rule = rules[place]
    for index, one in enumerate(rules):
        if one.action is Verdict.ALLOW or one.subject != rule.subject:
            continue
        if index > place and overlap(one, rule) and notation.yields(one):
            return one
        covered = index < place and covers(one, rule)
        if one.action is Verdict.DENY and covered:
            return one
        if one.action is not Verdict.ASK:
            continue
        default = index < place and _is_default(rules, index, notation)
        if not default and (covered if notation.asks else overlap(one, rule)):
            return one
    return None


def everything(rules: Sequence[Neutral], action: Verdict) -> bool:
    """Return whether the rules give every tool the same verdict and contain nothing else."""
    same = all(rule.form is PatternForm.ALL and rule.action is action for rule in rules)
    return same and {rule.subject for rule in rules} >= {ANY, *SUBJECTS}
