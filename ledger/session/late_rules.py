"""The current rules at a reply: a deny that is newer than the ask stops a later yes, and an edit is judged as an ask.

Only a current deny matters; a current ask is satisfied by the person who answers. See
`docs/decisions/0015-rules-of-now-at-the-reply.md`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.core.errors import EditDeniedError
from ledger.core.grants import StandingGrant
from ledger.core.policy import Call, Evaluation, Policy, Verdict
from ledger.policy.dialects import dialect_of
from ledger.session.demands import grants_for
from ledger.session.first import judge
from ledger.session.state import Request, SessionState, call_of


def denied_now(
    state: SessionState, policy: Policy, request: Request, standing: Sequence[StandingGrant]
) -> Evaluation | None:
    """Return the evaluation by which the current rules deny a pending request; None where they do not.

    Also None in the profile `faithful` and with the session's setting `late_denies` = `ignore`, as in the
    specifications, which judge a request once.
    """
    if ignores_late_denies(state, policy):
        return None
    call = call_of(request)
    evaluation, _ = judge(state, policy, call, request.request_id, grants_for(request, standing))
    return evaluation if evaluation.verdict is Verdict.DENY else None


def ignores_late_denies(state: SessionState, policy: Policy) -> bool:
    """Return whether a deny that is newer than the request has no effect on a person's yes."""
    return state.settings.late_denies == "ignore" or policy.source.options.get("profile") == "faithful"


def edited_call(policy: Policy, request: Request, edited: Any) -> Call:
    """Return the call of a request with the input as a person changed it, as the dialect reads it."""
    dialect = dialect_of(policy.source)
    tool = dialect.known_tool(request.tool_name or request.permission)
    return Call(dialect.permission_of(tool), (), tool, edited, request.cwd, request.agent)


def judge_edit(
    state: SessionState, policy: Policy, request: Request, edited: Any, standing: Sequence[StandingGrant]
) -> Evaluation:
    """Return the evaluation of a request's call with the input as a person changed it.

    Raises EditDeniedError where the current rules deny it; the request stays pending.
    """
    call = edited_call(policy, request, edited)
    evaluation, _ = judge(state, policy, call, request.request_id, grants_for(request, standing))
    if evaluation.verdict is Verdict.DENY:
        rules = ", ".join(f"`{rule.text}`" for rule in evaluation.rules) or evaluation.reason or "the rules"
        raise EditDeniedError(
            f"the changed input is denied by {rules}; request `{request.request_id}` is still pending",
            request_id=request.request_id,
            session=state.session_id,
            reasons=[
                {"text": rule.text, "layer": rule.layer, "file": rule.file, "line": rule.line}
                for rule in evaluation.rules
            ],
        )
    return evaluation
