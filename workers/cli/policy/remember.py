"""`policy remember`: the grants that an answer to a call could make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ledger.core.policy import Offer, Verdict
from ledger.policy.covers import not_accepted
from ledger.policy.dialect import Dialect
from ledger.policy.offers import narrowed, offers
from workers.cli.output import CommandOutput, talk
from workers.cli.policy.calls import call_options, typed_call
from workers.cli.policy.options import Choices, policy_command

_REACHES: Final = {"exact": "exactly this", "kind": "this kind", "all": "more"}


@policy_command(
    "remember",
    examples=(
        "permission-ledger policy remember 'git tag v1.4.0'",
        "permission-ledger policy remember --dialect codelia 'npm run build && ls' --json",
    ),
)
@call_options
def remember(*, choices: Choices, as_json: bool, **typed: Any) -> None:
    """Show the choices of what to remember of a command or a call, the narrowest first, each tried.

    WIDE marks a choice that lets through much more than this call. With --json each rule is an object as `grants` of
    `policy check` takes it, with `reach` (exact, kind, all), `wide`, `always` (an `always` reply grants it) and, where
    the choice does not cover the call, `still_asked`.
    """
    output = CommandOutput(as_json=as_json)
    call = typed_call(choices.dialect, **typed)
    policy = choices.policy(quiet=as_json)
    evaluation = policy.evaluate(call)
    idle = not_accepted(policy, call, evaluation, evaluation.always)
    stored = narrowed(policy, call, evaluation, tuple(entry for entry in evaluation.always if entry not in idle))
    found = offers(policy, call, evaluation, stored)
    if as_json:
        output.rows(row for one in found for row in _rows(choices.spoken, call.permission, one, stored))
        return
    for entry in idle:
        talk(f"left out: `{entry}` would lift nothing of this call in profile hardened")
    for one in found:
        for line in _lines(one, stored):
            output.line(line)
    if not found:
        output.line(_NOTHING[evaluation.verdict])


_NOTHING: Final = {
    Verdict.ALLOW: "nothing: it is allowed already",
    Verdict.ASK: "nothing: an `always` would count for this one call only",
    Verdict.DENY: "nothing: a rule denies it, and no grant lifts that",
}


def _rows(dialect: Dialect, permission: str, offer: Offer, stored: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for entry in offer.entries:
        grant = dialect.grant_object(permission, entry)
        still = {"still_asked": list(offer.still_asked)} if offer.still_asked else {}
        yield {**grant, "reach": offer.reach, "wide": offer.wide, "always": entry in stored, **still}


def _lines(offer: Offer, stored: tuple[str, ...]) -> Iterator[str]:
    granted = ", granted by `always`" if set(offer.entries) == set(stored) else ""
    name = f": {offer.name}" if offer.name else ""
    yield f"{_REACHES[offer.reach]}{name}{granted}{' (WIDE)' if offer.wide else ''}"
    yield from (f"  {entry}" for entry in offer.entries)
    for reason in offer.still_asked:
        yield f"  still asks: {reason}"
