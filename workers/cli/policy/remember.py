"""`policy remember`: what an `always` would grant, before anybody says it."""

from __future__ import annotations

from typing import Any

from ledger.policy.honouring import not_honoured
from ledger.policy.listing import always_objects
from workers.cli.output import Output, talk
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

    With --json each is an object as `grants` of `policy check` takes it. What is allowed already may be left out, and so
    is what the profile `hardened` would not honour (`python -m *`).
    """
    output = Output(as_json=as_json)
    call = typed_call(choices.dialect, **typed)
    policy = choices.policy(quiet=as_json)
    evaluation = policy.evaluate(call)
    idle = not_honoured(policy, call, evaluation, evaluation.always)
    stored = tuple(entry for entry in evaluation.always if entry not in idle)
    if as_json:
        output.rows(always_objects(choices.dialect, call.permission, stored))
        return
    for entry in idle:
        talk(f"left out: `{entry}` would lift nothing of this call in profile hardened")
    for entry in stored or ("nothing: an `always` would count for this one call only",):
        output.line(entry)
