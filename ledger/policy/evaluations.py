"""One evaluation from the parts of a call, or from those of several inputs or lines; the strictest verdict decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ledger.core.policy import Evaluation, Part, Verdict, strictest

NO_RULE: Final = "no rule matches, and the default is ask"
GRANTED: Final = "allowed by a grant in force"


def evaluated(
    parts: Sequence[Part],
    verdict: Verdict,
    *,
    message: str | None = None,
    reason: str | None = None,
    always: tuple[str, ...] = (),
) -> Evaluation:
    """Return the evaluation of parts with the rules of those that decide, and the usual reason where none is given."""
    deciding = parts if len(parts) == 1 else [part for part in parts if part.verdict is verdict]
    rules = tuple(dict.fromkeys([rule for part in deciding for rule in part.rules]))
    if reason is None and verdict is Verdict.ASK:
        reason = None if all(part.rules for part in deciding) else NO_RULE
    elif reason is None:
        reason = GRANTED if any(part.grants for part in deciding) else None
    return Evaluation(verdict, tuple(parts), rules, message, reason, always)


def joined(found: Sequence[Evaluation]) -> Evaluation:
    """Return the first of the strictest evaluations, with the parts of all and the rules of all that are as strict.

    Needs at least one evaluation.
    """
    verdict = strictest(one.verdict for one in found)
    deciding = [one for one in found if one.verdict is verdict]
    return replace(
        deciding[0],
        parts=tuple(part for one in found for part in one.parts),
        rules=tuple(dict.fromkeys(rule for one in deciding for rule in one.rules)),
    )


def joined_calls(found: Sequence[Evaluation]) -> Evaluation:
    """Join the evaluations of several inputs of one call; `always` grants the offers of each of them."""
    if len(found) == 1:
        return found[0]
    return replace(joined(found), always=tuple(dict.fromkeys(entry for one in found for entry in one.always)))
