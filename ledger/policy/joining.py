"""Several inputs or lines judged one by one, made one evaluation: the strictest decides."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.policy import Evaluation, strictest


def joined(found: Sequence[Evaluation]) -> Evaluation:
    """The first of the strictest, with the parts of all, and the rules of all that are as strict.

    At least one must have been judged.
    """
    verdict = strictest(one.verdict for one in found)
    deciding = [one for one in found if one.verdict is verdict]
    return replace(
        deciding[0],
        parts=tuple(part for one in found for part in one.parts),
        rules=tuple(dict.fromkeys(rule for one in deciding for rule in one.rules)),
    )


def joined_calls(found: Sequence[Evaluation]) -> Evaluation:
    """The same for inputs of one call, whose answer `always` would grant what each of them offers."""
    if len(found) == 1:
        return found[0]
    return replace(joined(found), always=tuple(dict.fromkeys(entry for one in found for entry in one.always)))
