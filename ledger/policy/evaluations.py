"""One evaluation from those of several inputs or lines; the strictest verdict decides."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.policy import Evaluation, strictest


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
