"""The judgement of a call: by rules, grants and prerequisites, with as few uses of grants with a limit as possible. Pure.

Prerequisites are directories outside the project, as OpenCode and BRUTUS ask for them. Each is a separate request, which
`Session.submit_tool` asks first. An ask about the call alone does not bypass it: a call is never allowed before all its
prerequisites (opencode.md "Bash Tool Permission Flow", brutus.md "Tool Integration").

A call takes one use of each grant with a limit that it rests on, once, when it is allowed. A use of a session's own
grant is taken in the same append as the allow. A use of a project's grant is taken in the project's stream before that:
the decision names it with `UsesWantedError`, the caller takes it with `TakeUse`, and the decision is made again.

At a reply only a current deny matters; a current ask is satisfied by the person who answers. See
`docs/contributing/decisions/judging.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import is_not
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from ledger.core.errors import EditDeniedError, LedgerError
from ledger.core.events import Opinion
from ledger.core.grants import StandingGrant, TakenUse, Taker, with_use
from ledger.core.policy import Call, ConsultedFile, Demand, Evaluation, Part, Policy, Verdict, strictest
from ledger.core.questions import Question
from ledger.core.standing import Standing, as_policy_grants, kept, named
from ledger.masks.masking import Masks, masked_call
from ledger.masks.own_input import OPENING, holds_mask
from ledger.policy.demands import asks_several, demands_on
from ledger.policy.dialects import dialect_of
from ledger.session.approvals import binding, grants_for, that_are_signed, why_too_few
from ledger.session.state import Request, SessionState, call_of, input_digest, use_claim_id
from ledger.session.would_run.members import BEHIND

EXTERNAL_DIRECTORY: Final = "external_directory"
"""The permission of a folder outside of the project, whose metadata has the call behind it."""

EFFECTS_KEPT: Final = 64
"""Evaluations with an effect that are kept; the rules keep theirs, too."""

_WITH_EFFECTS: Final[dict[int, tuple[Evaluation, Call, Any, Evaluation]]] = {}
"""By the id of an evaluation: it, its call, the call behind that, and the evaluation with the effect."""

MASKED: Final = "a masked secret"
NOT_UNDERSTOOD: Final = "it holds a masked secret, so that the rules cannot judge what would run"


def first_request_id(request_id: str, call: Call, number: int) -> str:
    """Return the id of a call's prerequisite by its number (from 1)."""
    return f"{request_id}.{call.permission}{f'.{number}' if number > 1 else ''}"


def call_behind(tool: str, tool_input: Any, most_bytes: int) -> dict[str, Any]:
    """Return the call behind a folder for display; an input of more than `all_caches_bytes` as its digest."""
    size = len(msgspec.json.encode(tool_input))
    if size <= most_bytes:
        return {"tool": tool, "input": tool_input}
    return {"tool": tool, "input_digest": input_digest(tool_input), "input_bytes": size}


def digest_behind(request: Request) -> str | None:
    """Return the digest of the input behind a prerequisite; None where its metadata has none."""
    behind = request.metadata.get(BEHIND)
    if behind is None or not isinstance(behind, Mapping) or request.input is not None:
        return None
    digest = behind.get("input_digest")
    return input_digest(behind["input"]) if "input" in behind else digest if isinstance(digest, str) else None


def judge(
    state: SessionState,
    policy: Policy,
    call: Call,
    request_id: str,
    standing: Sequence[StandingGrant],
    *,
    masks: Masks | None = None,
) -> tuple[Evaluation, frozenset[str]]:
    """Return the evaluation of a call under these grants, and the ids of all grants on which it depends.

    A prerequisite that is not allowed makes it stricter, by parts that no grant lifts: a person must answer. So does a
    mask in the call, which is not what would run. The evaluation has the facts on which it and those of its
    prerequisites rest; where they are too many to record, it is the stricter one for which no file was read. `masks`
    tell how the log knows an input with a secret.
    """
    found = judge_once(state, policy, call, request_id, standing, masks=masks)
    facts = found[0].facts
    if facts is None or facts.too_many is None:
        return found
    unread: Policy = getattr(policy, "unread", policy)
    evaluation, used = judge_once(state, unread, call, request_id, standing, masks=masks)
    from ledger.policy.consulted import overloaded  # noqa: PLC0415 - readers of a session need no rules

    return overloaded(evaluation, facts.too_many, getattr(policy, "own_folders", ())), used


def judge_once(
    state: SessionState,
    policy: Policy,
    call: Call,
    request_id: str,
    standing: Sequence[StandingGrant],
    *,
    masks: Masks | None = None,
) -> tuple[Evaluation, frozenset[str]]:
    """Return what `judge` returns, with facts that may be too many to record."""
    grants = as_policy_grants(standing) if standing else ()
    evaluation = policy.evaluate(call, grants)
    used = _grants_of(evaluation) if standing else _NO_GRANTS
    if evaluation.verdict is Verdict.ALLOW and _has_mask(call):
        part = Part(MASKED, Verdict.ASK, liftable=False)
        parts = (*evaluation.parts, part)
        evaluation = replace(evaluation, verdict=Verdict.ASK, parts=parts, rules=(), reason=NOT_UNDERSTOOD)
    if not evaluation.ask_first or evaluation.verdict is Verdict.DENY:
        return evaluation, used
    firsts: list[Evaluation] = []
    for number, first in enumerate(evaluation.ask_first, 1):
        # A prerequisite may have other demands than the call itself.
        counting = that_are_signed(standing, demands_on(policy, first))
        judged = policy.evaluate(first, as_policy_grants(counting))
        firsts.append(judged)
        if judged.verdict is Verdict.ALLOW:
            used |= _grants_of(judged)
            continue
        asked_as = first_request_id(request_id, first, number)
        was_allowed = _was_allowed(state, asked_as, first, masked_call(call, masks), demands_on(policy, first))
        if judged.verdict is Verdict.DENY or not was_allowed:
            evaluation = _raised(evaluation, first, judged)
    from ledger.policy.consulted import merged  # noqa: PLC0415 - as above

    return merged(evaluation, firsts), used


_NO_GRANTS: Final[frozenset[str]] = frozenset()


def _has_mask(call: Call) -> bool:
    for pattern in call.patterns:
        if OPENING in pattern and holds_mask(pattern):
            return True
    return call.input is not None and holds_mask(call.input)


def _grants_of(evaluation: Evaluation) -> frozenset[str]:
    return frozenset(grant_id for part in evaluation.parts for grant_id in part.grants)


def _was_allowed(state: SessionState, request_id: str, first: Call, call: Call, demands: tuple[Demand, ...]) -> bool:
    """Return whether people or a decider allowed a prerequisite of exactly this call; grants are judged again."""
    settled = state.settled.get(request_id)
    if settled is None or settled.outcome != "allowed" or settled.cause is not None or settled.imported:
        return False
    if why_too_few(settled, demands) is not None:
        return False
    if settled.input_digest != input_digest(call.input):
        # The folder was allowed for another command, or without showing one.
        return False
    request = settled.request
    if (request.permission, request.patterns) != (first.permission, first.patterns):
        return False
    return settled.reply is not None or (request.evaluation is not None and request.evaluation.verdict is Verdict.ASK)


def _raised(evaluation: Evaluation, first: Call, judged: Evaluation) -> Evaluation:
    verdict = strictest((evaluation.verdict, judged.verdict))
    named = ", ".join(f"`{pattern}`" for pattern in first.patterns)
    unmet = (part for part in judged.parts if part.verdict is not Verdict.ALLOW)
    parts = tuple(Part(part.text, part.verdict, part.rules, liftable=False) for part in unmet)
    return replace(
        evaluation,
        verdict=verdict,
        parts=(*evaluation.parts, *parts),
        rules=judged.rules if judged.verdict is verdict else evaluation.rules,
        message=judged.message,
        reason=f"{named} must be allowed first, as a request for `{first.permission}`",
    )


TARGET: Final = "target"


def links_of(evaluation: Evaluation | None) -> tuple[ConsultedFile, ...] | None:
    """Return the links that an evaluation followed; None where it recorded no files, or masked the name of one."""
    if evaluation is None or evaluation.facts is None or evaluation.facts.too_many is not None:
        return None
    links = tuple([file for file in evaluation.facts.files if file.asked == TARGET and file.found is not None])
    return None if any(holds_mask((link.path, link.found)) for link in links) else links


def changed_link(known: tuple[ConsultedFile, ...] | None, now: Evaluation) -> str | None:
    """Return what changed for people, if a path leads elsewhere than when the request was judged; else None.

    `known` are the links of then, None for a request of whose files nothing is known.
    """
    if known is None or now.facts is None:
        return None
    then = {link.path: link.found for link in known}
    for file in now.facts.files:
        if file.asked == TARGET:
            target, was = file.found or file.path, then.get(file.path) or file.path
            if target != was:
                return f"`{file.path}` leads to `{target}` now, and to `{was}` when it was asked about"
    return None


SPARED_COUNT: Final = 16
"""Grants with a limit, at most, that a call is judged without; each costs one more evaluation."""


Judge: TypeAlias = Callable[
    [SessionState, Policy, Call, str, Sequence[StandingGrant]], tuple[Evaluation, frozenset[str]]
]
"""A judgement of a call under some grants: `ledger.session.judging.judge`, or one without its recording of facts."""


def judging(masks: Masks | None) -> Judge:
    """Return the judgement of a call whose record gets these masks."""
    return judge if masks is None else partial(judge, masks=masks)


class UsesWantedError(LedgerError):
    """An internal signal, never raised to a caller: uses of these project grants must be taken before the allow."""

    code = "USES_WANTED"

    def __init__(self, taker: Taker, grant_ids: tuple[str, ...]) -> None:
        named = ", ".join(f"`{grant_id}`" for grant_id in grant_ids)
        super().__init__(
            f"request `{taker.request_id}` rests on uses of {named}", session=taker.session, request_id=taker.request_id
        )
        self.taker = taker
        self.grant_ids = grant_ids


def taker_of(state: SessionState, request_id: str, claim_id: str | None = None) -> Taker:
    """Return a request as a taker of uses, under the claim that it has, or the one that it is about to get."""
    request, settled = state.find(request_id), state.settled.get(request_id)
    if request is None:
        return Taker(state.session_id, request_id)
    held = None if settled is None or settled.claim is None else settled.claim.claim_id
    ids = dict.fromkeys(("", *(one for one in (held, claim_id) if one is not None)))
    return Taker(state.session_id, request_id, tuple(use_claim_id(request, one) for one in ids))


def judge_sparingly(
    state: SessionState,
    policy: Policy,
    call: Call,
    taker: Taker,
    standing: Sequence[StandingGrant],
    *,
    judge: Judge = judge,
) -> tuple[Evaluation, frozenset[str]]:
    """Judge a call, and return the ids of the grants that it rests on: as few with a limit of uses as possible."""
    if not standing:
        return judge(state, policy, call, taker.request_id, ())
    free, request_id = unlimited(standing), taker.request_id
    judged = judge(state, policy, call, request_id, free)
    if free is standing or judged[0].verdict is Verdict.ALLOW:
        return judged
    judged = judge(state, policy, call, request_id, standing)
    if judged[0].verdict is not Verdict.ALLOW:
        return judged
    left: Sequence[StandingGrant] = standing
    for grant in _dispensable(standing, judged[1], taker):
        without = kept(left, partial(is_not, grant))
        again = judge(state, policy, call, request_id, without)
        if again[0].verdict is Verdict.ALLOW:
            left, judged = without, again
    return judged


def _dispensable(standing: Sequence[StandingGrant], used: frozenset[str], taker: Taker) -> list[StandingGrant]:
    """Return the grants with a limit that may not be needed: the newest first, those that the call holds last."""
    limited = [grant for grant in reversed(named(standing, used)) if grant.uses is not None]
    return sorted(limited, key=lambda grant: grant.is_held(taker))[:SPARED_COUNT]


def unlimited(standing: Sequence[StandingGrant]) -> Sequence[StandingGrant]:
    """Return the grants without a limit of uses."""
    is_free = not standing.has_limited if isinstance(standing, Standing) else all(map(_has_no_limit, standing))
    return standing if is_free else kept(standing, _has_no_limit)


def _has_no_limit(grant: StandingGrant) -> bool:
    return grant.uses is None


def sparing(standing: Iterable[StandingGrant], taker: Taker) -> list[StandingGrant]:
    """Return the grants in the order of choice: without a limit of uses, held by the call, any other."""
    return sorted(standing, key=lambda grant: grant.uses is not None and (1 if grant.is_held(taker) else 2))


def at_hand(standing: Iterable[StandingGrant], taker: Taker) -> list[StandingGrant]:
    """Return the grants that may lift a pending call in one append: all but unheld ones of the project with a limit."""
    return [one for one in standing if one.uses is None or one.scope == "session" or one.is_held(taker)]


def recheckable(standing: Sequence[StandingGrant], taker: Taker) -> Sequence[StandingGrant]:
    """Return the grants that an allow may still rest on: no event could record a new use of a session's own grant."""
    return kept(standing, lambda one: one.uses is None or one.scope == "project" or one.is_held(taker))


def uses_of(used: Iterable[StandingGrant], taker: Taker) -> tuple[str, ...]:
    """Return the ids of the grants of which the call takes a use under its last claim id.

    Raises UsesWantedError for grants of the project of which it holds none.
    """
    limited = [grant for grant in used if grant.uses is not None]
    wanted = [one.grant_id for one in limited if one.scope == "project" and not one.is_held(taker)]
    if wanted:
        raise UsesWantedError(taker, tuple(dict.fromkeys(wanted)))
    last = replace(taker, claim_ids=taker.claim_ids[-1:])
    taken = [one for one in limited if (one.is_held(last) if one.scope == "project" else not one.is_held(taker))]
    return tuple(dict.fromkeys(one.grant_id for one in taken))


def with_uses_left(
    standing: Sequence[StandingGrant], taker: Taker, spent: Mapping[str, int]
) -> Sequence[StandingGrant]:
    """Return the grants that are left after calls before in the same append `spent` uses of the session's own ones."""
    return kept(
        standing,
        lambda grant: (
            grant.scope == "project"
            or grant.uses_left is None
            or grant.uses_left > spent.get(grant.grant_id, 0)
            or grant.is_held(taker)
        ),
    )


def with_uses(
    standing: Sequence[StandingGrant], used: Iterable[StandingGrant], taker: Taker, now_ms: int
) -> Sequence[StandingGrant]:
    """Return the grants that are left after a call took its uses, for the next call of the same append."""
    ids = {grant.grant_id for grant in used if grant.uses is not None}
    use = TakenUse(taker.session, taker.request_id, taker.claim_ids[-1], now_ms)
    left = (with_use(grant, use) if grant.grant_id in ids and not grant.is_held(taker) else grant for grant in standing)
    return [grant for grant in left if grant.uses_left != 0]


def with_effect(evaluation: Evaluation, question: Question) -> Evaluation:
    """Return the evaluation of a call that a person must answer, with its effect; of a folder, that of the call behind it.

    It is the same object for the same evaluation of a call: what was found free of secrets is not searched again.
    """
    asked, behind = question.call, question.metadata.get(BEHIND)
    known = _WITH_EFFECTS.get(id(evaluation))
    if known is not None and known[0] is evaluation and known[1] == asked and known[2] == behind:
        return known[3]
    from ledger.policy.effects import effect_of  # noqa: PLC0415 - slow to import, and only what waits needs it

    call, is_folder = asked, asked.permission == EXTERNAL_DIRECTORY and asked.tool_name is None
    if is_folder and isinstance(behind, Mapping) and isinstance(behind.get("tool"), str) and "input" in behind:
        call = Call(behind["tool"], (), behind["tool"], behind["input"], asked.cwd)
    found = replace(evaluation, effect=effect_of(call, evaluation.facts))
    if len(_WITH_EFFECTS) == EFFECTS_KEPT:
        _WITH_EFFECTS.clear()
    _WITH_EFFECTS[id(evaluation)] = (evaluation, asked, behind, found)
    return found


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
