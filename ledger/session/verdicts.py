"""The combination of rules, deciders and grants into one verdict, at the ask and by the rules of now at a reply. Pure.

At a reply only a current deny matters; a current ask is satisfied by the person who answers. See
`docs/decisions/0015-rules-of-now-at-the-reply.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ledger.core.errors import EditDeniedError
from ledger.core.events import Opinion
from ledger.core.grants import StandingGrant
from ledger.core.policy import Call, Evaluation, Policy, Verdict, strictest
from ledger.masks.own_input import holds_mask
from ledger.policy.demands import asks_several
from ledger.policy.dialects import dialect_of
from ledger.session.demands import binding, grants_for
from ledger.session.judging import judge
from ledger.session.state import Request, SessionState, call_of


def with_opinions(verdict: Verdict, opinions: Iterable[Opinion]) -> Verdict:
    """Combine a verdict with the deciders' opinions: each may tighten any verdict, and loosen only an ask to an allow.

    After a failed decider, whose opinion is unknown, no later one loosens the verdict that replaces it.
    Source: `opencode.md`, "Plugin Integration" (the `permission.ask` hook).
    """
    unknown = Verdict.ALLOW
    for opinion in opinions:
        if opinion.verdict is None:
            continue
        if opinion.verdict is Verdict.ALLOW:
            verdict = Verdict.ALLOW if verdict is Verdict.ASK else verdict
        else:
            verdict = strictest((verdict, opinion.verdict))
        if opinion.failed is not None:
            unknown = strictest((unknown, opinion.verdict))
    return strictest((verdict, unknown))


def lifts_denies(policy: Policy) -> bool:
    """Return whether grants override every rule, configured denies included (OpenCode's `compat = "v1"`)."""
    return getattr(policy, "compat", policy.source.options.get("compat")) == "v1"


def grants_that_release(
    policy: Policy, request: Request, grants: Sequence[StandingGrant]
) -> tuple[StandingGrant, ...] | None:
    """Return the grants that allow a pending request, or None if they do not.

    Judged by the recorded evaluation of the ask: the parts that rules allowed, and those that a grant lifts. With
    `compat = "v1"` the grants alone must allow every part (`opencode-zh.md` 6.3).
    """
    evaluation = request.evaluation
    if evaluation is None or not evaluation.parts or holds_mask((request.patterns, request.input)):
        return None
    if with_opinions(Verdict.ALLOW, request.opinions) is not Verdict.ALLOW or _needs_a_look(request, evaluation):
        return None
    if asks_several(binding(policy, request)):
        return None
    grants = grants_for(request, grants, policy)
    grants_alone = lifts_denies(policy)
    used: list[StandingGrant] = []
    for part in evaluation.parts:
        # A part that a grant lifted at the ask is judged by the current grants: that grant may be revoked.
        if part.verdict is Verdict.ALLOW and not part.grants and not grants_alone:
            continue
        lifting = next(
            (grant for grant in grants if policy.lifts(grant.as_policy_grant(), request.permission, part)), None
        )
        if lifting is None:
            return None
        used.append(lifting)
    return tuple(used)


def _needs_a_look(request: Request, evaluation: Evaluation) -> bool:
    """Return whether only a person releases a reopened request: what changed is nothing that rules and grants judge."""
    if request.reopened_for is None:
        return False
    return request.reopened_for in ("operand", "link") or evaluation.verdict is Verdict.ALLOW


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
