"""Stricter checks of the hardened profile for files and addresses of tool calls: every other reading of them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ledger.core.policy import Evaluation, Part, Verdict
from ledger.policy.brutus.bash import CommandPlace
from ledger.policy.brutus.judge import BrutusJudge
from ledger.policy.spelled import is_of_a_process, spelled_paths
from ledger.policy.urls import read_address


def tightened(judged: Evaluation, texts: Iterable[str], place: CommandPlace, judge: BrutusJudge) -> Evaluation:
    """Return the stricter of an evaluation and the rules on every other reading of the call's paths and addresses."""
    if judged.verdict is Verdict.DENY:
        return judged
    found = [part for text in texts for part in _of_text(text, place, judge)]
    part = max(found, key=lambda part: part.verdict is Verdict.DENY, default=None)
    if part is None or part.verdict is judged.verdict:
        return judged
    message = f"Denied by rule: {part.rules[0].text}" if part.verdict is Verdict.DENY else None
    reason = f"`{part.text}` is another reading of the call"
    parts = (*judged.parts, part)
    return replace(judged, verdict=part.verdict, parts=parts, rules=part.rules, message=message, reason=reason)


def _of_text(text: str, place: CommandPlace, judge: BrutusJudge) -> Iterator[Part]:
    address = read_address(text) if ":" in text or judge.permission == "webfetch" else None
    for reading in address.texts if address is not None else ():
        yield from _restricted(reading, judge)
    if judge.permission == "webfetch":
        if address is None or not (address.texts and address.is_clear):
            yield Part(text, Verdict.ASK, liftable=False)
        return
    for form in spelled_paths(text, place.directory, place.home, place.facts):
        # Inside the project a pattern that begins with `*` matches the path from the project's root.
        whole = [part for part in _restricted(form, judge) if not (place.holds(form) and _floats(part))]
        yield from whole
        if place.holds(form):
            yield from _restricted(posixpath.relpath(form, place.project), judge)
        if is_of_a_process(form) or "\0" in text:
            yield Part(text, Verdict.ASK, liftable=False)


def _floats(part: Part) -> bool:
    return any(rule.text.split(" ")[1:2] and rule.text.split(" ")[1].startswith("*") for rule in part.rules)


def _restricted(text: str, judge: BrutusJudge) -> Iterator[Part]:
    rule = judge.restricting(text)
    if rule is not None:
        yield Part(text, rule.action, rule.refs, liftable=False)
