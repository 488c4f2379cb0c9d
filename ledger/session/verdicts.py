"""The combination of rules, deciders and grants into one verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.core.events import Opinion
from ledger.core.grants import StandingGrant
from ledger.core.masked_text import holds_mask
from ledger.core.policy import Evaluation, Policy, Verdict, strictest
from ledger.policy.demands import asks_several
from ledger.session.demands import binding, grants_for
from ledger.session.state import Request


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
