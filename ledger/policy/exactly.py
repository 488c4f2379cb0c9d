"""The narrowest rules of each dialect that match one call. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ledger.core.policy import Call, Verdict
from ledger.policy.check_questions import JudgedCall
from ledger.policy.dialect import Dialect
from ledger.policy.named_entries import NamedEntry, without_wildcard


def named_call(dialect: Dialect, call: Call, judged: JudgedCall) -> tuple[NamedEntry, ...]:
    """Return the narrowest entries for all parts of a call that are not allowed, and for the calls it depends on."""
    found = [
        dialect.notation.named_pattern(one.permission, text)
        for one, evaluation in judged.first
        if evaluation.verdict is not Verdict.ALLOW
        for text in one.patterns
    ]
    if judged.own.verdict is not Verdict.ALLOW:
        parts = [part for part in judged.own.parts if part.inside is None and part.verdict is not Verdict.ALLOW]
        found += _of_texts(dialect, call, [part.text for part in parts])
    return tuple(dict.fromkeys(found))


def named_whole(dialect: Dialect, call: Call, judged: JudgedCall) -> tuple[NamedEntry, ...]:
    """Return the narrowest entries for a call as a whole: its command line, or its other subjects."""
    line = call.input.get("command") if isinstance(call.input, Mapping) else None
    if call.permission == dialect.language.shell and isinstance(line, str):
        return tuple(_of_texts(dialect, call, [line.strip()]))
    return tuple(dict.fromkeys(_of_texts(dialect, call, [part.text for part in judged.own.parts])))


def _of_texts(dialect: Dialect, call: Call, texts: Sequence[str]) -> Iterator[NamedEntry]:
    if call.permission != dialect.language.shell:
        yield from dialect.notation.named(call, texts)
        return
    for text in texts:
        yield without_wildcard(call.permission, dialect.notation.command_entry(text), text, dialect.language.wildcards)
