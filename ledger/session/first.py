"""Prerequisites of a call: directories outside the project, as OpenCode and BRUTUS ask for them.

Each is a separate request, which `Session.submit_tool` asks first. An ask about the call alone does not bypass it: a
call is never allowed before all its prerequisites (opencode.md "Bash Tool Permission Flow", brutus.md "Tool
Integration").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.core.grants import StandingGrant
from ledger.core.masked_text import holds_mask
from ledger.core.policy import Call, Demand, Evaluation, Part, Policy, Verdict, strictest
from ledger.core.standing import as_policy_grants
from ledger.masks.masking import Masks, masked_call
from ledger.policy.demands import demands_on
from ledger.session.approvals import why_too_few
from ledger.session.demands import that_are_signed
from ledger.session.state import Request, SessionState, input_digest
from ledger.session.would_run.members import BEHIND

MASKED: Final = "a masked secret"
NOT_UNDERSTOOD: Final = "it holds a masked secret, so that the rules cannot judge what would run"


def first_request_id(request_id: str, call: Call, number: int) -> str:
    """Return the id of a call's prerequisite by its number (from 1)."""
    return f"{request_id}.{call.permission}{f'.{number}' if number > 1 else ''}"


def call_behind(tool: str, tool_input: Any, room_bytes: int) -> dict[str, Any]:
    """Return the call behind a folder for display; an input of more than `room_bytes` as its digest."""
    size = len(msgspec.json.encode(tool_input))
    if size <= room_bytes:
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
        evaluation = _not_understood(evaluation)
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
        if holds_mask(pattern):
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


def _not_understood(evaluation: Evaluation) -> Evaluation:
    part = Part(MASKED, Verdict.ASK, liftable=False)
    return replace(evaluation, verdict=Verdict.ASK, parts=(*evaluation.parts, part), rules=(), reason=NOT_UNDERSTOOD)


def _raised(evaluation: Evaluation, first: Call, judged: Evaluation) -> Evaluation:
    verdict = strictest((evaluation.verdict, judged.verdict))
    named = ", ".join(f"`{pattern}`" for pattern in first.patterns)
    parts = tuple(Part(part.text, part.verdict, part.rules, liftable=False) for part in _unmet(judged))
    return replace(
        evaluation,
        verdict=verdict,
        parts=(*evaluation.parts, *parts),
        rules=judged.rules if judged.verdict is verdict else evaluation.rules,
        message=judged.message,
        reason=f"{named} must be allowed first, as a request for `{first.permission}`",
    )


def _unmet(judged: Evaluation) -> Iterable[Part]:
    return (part for part in judged.parts if part.verdict is not Verdict.ALLOW)
