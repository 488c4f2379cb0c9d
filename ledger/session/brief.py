"""Brief events: a payload leaves out what the session's state or another member says already.

An event is shortened right before it is encoded, and filled in right after it was decoded, by the state before it. So
everybody else sees whole events. An event that could not be filled in to the same again is written whole. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from msgspec.structs import force_setattr, replace

from ledger.core.commitments import long_digest, short_digest
from ledger.core.events import Asked, AskedDetail, Claimed, Event, PolicyChanged, SessionOpened, Settings
from ledger.core.policy import Evaluation, Part, RuleRef, Verdict

SAYING: Final = frozenset((SessionOpened, PolicyChanged))
"""The events that change what is left out after them."""

E = TypeVar("E")


class KnownMembers(Protocol):
    """The members of a session's state that its events need not repeat."""

    @property
    def policy_digest(self) -> str: ...
    @property
    def settings(self) -> Settings: ...


_Member: TypeAlias = tuple[str, Any, Any]
"""A member of an event: its name, the value that is said already, and the one that a reader finds where it is left out."""

_PROJECT: Final[_Member] = ("project_version", 0, None)
"""The version of a project without grants, as of most."""


def shortened(event: Event, said: Any) -> Event:
    """Return an event as its payload has it; `said` is the state before it, for a session's events a `KnownMembers`."""
    if (type(event) is not Asked and type(event) is not Claimed) or event.brief:
        return event
    changes: dict[str, Any] = {}
    for name, already, left_out in _members(event, said):
        value = getattr(event, name)
        if value == left_out != already:
            return event
        if value == already != left_out:
            changes[name] = left_out
    if type(event) is Asked:
        digest = short_digest(event.digest)
        evaluation = None if event.detail is None else event.detail.evaluation
        if digest is None or (evaluation is not None and evaluation.rules != _rules_of_parts(evaluation)):
            return event
        changes["digest"] = digest
        if event.detail is not None and evaluation is not None and evaluation.rules:
            is_plain = evaluation == _plain(event.verdict, event.detail.patterns, evaluation.rules)
            changes["detail"] = (
                replace(event.detail, evaluation=None, rules=evaluation.rules)
                if is_plain
                else replace(event.detail, evaluation=replace(evaluation, rules=()))
            )
    return replace(event, brief=True, **changes)


def fill_in(event: Any, said: KnownMembers | None) -> None:
    """Make a decoded event whole; `said` is the state before it. It must not be anybody else's yet.

    Without that state the event stays brief: it has everything but its durations and the digest of the rules.
    """
    kind = type(event)
    if (kind is not Asked and kind is not Claimed) or not event.brief:
        return
    if kind is Asked:
        force_setattr(event, "digest", long_digest(event.digest))
        _fill_in(event, _PROJECT)
        if event.detail is not None:
            _fill_in_rules(event.verdict, event.detail)
    if said is not None:
        for one in _members(event, said):
            _fill_in(event, one)
        force_setattr(event, "brief", False)


def _fill_in(event: Asked | Claimed, member: _Member) -> None:
    name, said, left_out = member
    if getattr(event, name) == left_out:
        force_setattr(event, name, said)


def _members(event: Asked | Claimed, said: KnownMembers) -> tuple[_Member, ...]:
    """Return the members that the session's state says."""
    digest = ("policy_digest", said.policy_digest, "")
    if type(event) is not Asked:
        return (digest,)
    if event.verdict is not Verdict.ASK:
        return digest, _PROJECT
    settings = said.settings
    ends_ms = settings.attended_ms if event.tier == "attended" else settings.unattended_ms
    return (
        digest,
        ("duration_ms", ends_ms, None),
        ("unattended_ms", settings.unattended_ms, None),
        ("cap_ms", settings.cap_ms, None),
        _PROJECT,
    )


def _fill_in_rules(verdict: Verdict, detail: AskedDetail) -> None:
    evaluation = detail.evaluation
    if detail.rules and evaluation is None:
        force_setattr(detail, "evaluation", _plain(verdict, detail.patterns, detail.rules))
        force_setattr(detail, "rules", ())
    elif evaluation is not None and not evaluation.rules:
        force_setattr(evaluation, "rules", _rules_of_parts(evaluation))


def _plain(verdict: Verdict, patterns: Sequence[str], rules: tuple[RuleRef, ...]) -> Evaluation | None:
    """Return the evaluation of a call of one pattern by nothing but these rules; None for any other call."""
    if len(patterns) != 1:
        return None
    return Evaluation(verdict, (Part(patterns[0], verdict, rules),), rules)


def _rules_of_parts(evaluation: Evaluation) -> tuple[RuleRef, ...]:
    """Return the rules of the parts that decide, each once: mostly those of the whole evaluation."""
    deciding = [part for part in evaluation.parts if part.verdict is evaluation.verdict]
    if len(deciding) == 1:
        return deciding[0].rules
    return tuple(dict.fromkeys(rule for part in deciding for rule in part.rules))
