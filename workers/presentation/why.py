"""The reason for a request, and the grants that would have answered it: as JSON, and as sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from ledger.client.why import GrantChoice, PastCall, WhyAsked
from ledger.core.policy import Part, Verdict
from ledger.core.times import format_time
from ledger.policy.check_questions import part_json, rule_json
from ledger.session.state import without_facts
from workers.presentation.labels import ASKED_BECAUSE, REACHES
from workers.presentation.text import revealed
from workers.presentation.words import lets_through

LOOK_BACK_DAYS: Final = 30
LOOKED_AT_COUNT: Final = 300
"""Past requests that are looked at, the newest ones."""

RULES_COUNT: Final = 3
PARTS_COUNT: Final = 16
"""Rules, and parts that are asked about, that are told at most."""

_WHERE: Final = {"index": "the index of requests", "log": "the log"}


def why_json(why: WhyAsked, rule: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return CONTRACT-like members. `rule` is the smallest rule for a file, None where there is none."""
    evaluation = without_facts(why.evaluation)
    parts = [] if evaluation is None else _asking(evaluation.parts)
    return {
        "session": why.pending.session,
        "request_id": why.pending.request.request_id,
        "project": why.project,
        "dialect": why.dialect,
        "digest": why.pending.as_json()["digest"],
        "asks": {
            "reason": None if evaluation is None else evaluation.reason,
            "rules": [] if evaluation is None else [rule_json(one) for one in evaluation.rules],
            "parts": [part_json(one) for one in parts],
        },
        "scope": why.scope,
        "choices": [_choice_json(one) for one in why.choices],
        "refused": why.refused,
        "rule": rule,
        "past": {
            "source": why.past.source,
            "since": format_time(why.past.since_ms),
            "days": LOOK_BACK_DAYS,
            "looked_at": why.looked_at,
            "unknown": why.unknown,
            "cut": why.is_cut,
        },
    }


def _asking(parts: tuple[Part, ...]) -> list[Part]:
    return [one for one in parts if one.verdict is not Verdict.ALLOW][:PARTS_COUNT]


def _choice_json(choice: GrantChoice) -> dict[str, Any]:
    offer, reached = choice.offer, choice.reached
    return {
        "entries": list(offer.entries),
        "reach": offer.reach,
        "wide": offer.wide,
        "name": offer.name,
        "suggested": choice.suggested,
        "smallest": choice.smallest,
        "answered": reached.answered,
        "answered_here": reached.here,
        "rejected": reached.rejected,
        "examples": [_example_json(one) for one in reached.examples],
    }


def _example_json(past: PastCall) -> dict[str, Any]:
    one = past.request
    return {
        "call": past.line,
        "session": one.session,
        "request_id": one.request_id,
        "version": one.version,
        "asked_at": format_time(one.asked_ms),
        "outcome": one.outcome,
        "by": one.by,
    }


def why_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a terminal. Every text of the agent is shown in one line, escaped."""
    yield from _asking_lines(row["asks"])
    if row["refused"] is not None:
        yield ""
        yield f"no grant would have answered it: {_shown(row['refused'])}"
        return
    for choice in row["choices"]:
        yield ""
        yield from _choice_lines(choice, row)
    yield ""
    yield _basis(row["past"])
    yield from _rule_lines(row["rule"])


def _rule_lines(rule: Mapping[str, Any] | None) -> Iterator[str]:
    if rule is None:
        return
    yield ""
    yield f"{_shown(rule['text'])}:"
    yield f"  {_shown(json.dumps(rule['config'], ensure_ascii=False))}"
    yield f"  {lets_through(map(_shown, rule['lets_through']))}"


def _asking_lines(asks: Mapping[str, Any]) -> Iterator[str]:
    rules = list({msgspec.json.encode(one): one for one in _rules(asks)}.values())
    if asks["reason"] or not rules:
        yield f"{ASKED_BECAUSE} {_shown(asks['reason'] or 'no rule matches')}"
    for rule in rules[:RULES_COUNT]:
        place = f"{rule['file']}:{rule['line']}" if rule["file"] and rule["line"] else rule["file"]
        where = ", ".join(_shown(one) for one in (rule["layer"], place) if one)
        yield f"rule `{_shown(rule['text'])}`{f' ({where})' if where else ''}"
    if len(rules) > RULES_COUNT:
        yield f"and {len(rules) - RULES_COUNT} more rules"


def _rules(asks: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from asks["rules"]
    for part in asks["parts"]:
        yield from part["rules"]


def _choice_lines(choice: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    marks = [
        *(["smallest"] if choice["smallest"] else []),
        *(["WIDE"] if choice["wide"] else []),
        *(["suggested by the agent"] if choice["suggested"] else []),
    ]
    yield REACHES[choice["reach"]] + (f" ({', '.join(marks)})" if marks else "")
    yield from (f"  {_shown(entry)}" for entry in choice["entries"])
    yield f"  {counted(choice, row)}"
    for one in choice["examples"]:
        by = f" by {_shown(one['by'])}" if one["by"] else ""
        outcome = "rejected" if one["outcome"] == "corrected" else one["outcome"] or "pending"
        yield f"    {outcome}{by}: {_shown(one['call'])}"


def counted(choice: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return the count of one choice as a sentence."""
    past = row["past"]
    where = f" in {_shown(row['project'])}" if row["project"] else " of this session"
    looked_at = past["looked_at"]
    text = (
        f"would have answered {choice['answered']} of {looked_at} other requests of the last {past['days']} days{where}"
    )
    rejected = choice["rejected"]
    if rejected:
        text += f"; {rejected} of them {'was' if rejected == 1 else 'were'} rejected by people"
    return text


def _basis(past: Mapping[str, Any]) -> str:
    text = f"counted in {_WHERE[past['source']]} since {past['since']}"
    if past["unknown"]:
        text += f"; {past['unknown']} could not be judged"
    return text + ("; there are more than were looked at" if past["cut"] else "")


def _shown(text: str) -> str:
    return revealed(" ".join(text.split("\n")))
