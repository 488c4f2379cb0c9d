"""`policy remember`: what an `always` would grant, before anybody says it."""

from __future__ import annotations

from typing import Any

from ledger.policy.listing import always_objects
from workers.cli.output import Output
from workers.cli.policy.calls import call_options, typed_call
from workers.cli.policy.options import Choices, policy_command


@policy_command(
    "remember",
    examples=(
        "permission-ledger policy remember 'git push origin main'",
        "permission-ledger policy remember --dialect codelia 'npm run build && ls' --json",
    ),
)
@call_options
def remember(*, choices: Choices, as_json: bool, **typed: Any) -> None:
    """Show what an `always` would grant for a command or a call, one rule a line.

    With --json each is an object as `grants` of `policy check` takes it. What is allowed already may be left out.
    """
    output = Output(as_json=as_json)
    call = typed_call(choices.dialect, **typed)
    evaluation = choices.policy(quiet=as_json).evaluate(call)
    if as_json:
        output.rows(always_objects(choices.dialect, call.permission, evaluation.always))
        return
    for entry in evaluation.always or ("nothing: an `always` would count for this one call only",):
        output.line(entry)
