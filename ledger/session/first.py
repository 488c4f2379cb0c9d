"""What must be allowed before a call: directories outside the project, as OpenCode and BRUTUS ask for them.

Each is a request of its own, which `Session.submit_tool` asks first. Whoever asks about the call alone is not let past
it: a call is never allowed while something that must come first is not (opencode.md "Bash Tool Permission Flow",
brutus.md "Tool Integration").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.core.grants import StandingGrant
from ledger.core.policy import Call, Evaluation, Part, Policy, Verdict, strictest
from ledger.policy.demands import demands_on
from ledger.session.demands import that_are_signed
from ledger.session.state import Request, SessionState, input_digest

BEHIND: Final = "behind"
"""The member of the metadata of what comes first that holds the call behind it: `{"tool", "input"}`.

Of an input for which there is no room, `{"tool", "input_digest", "input_bytes"}`."""


def first_request_id(request_id: str, call: Call, number: int) -> str:
    """The id of the request about what comes first, the `number`th (from 1) of its call."""
    return f"{request_id}.{call.permission}{f'.{number}' if number > 1 else ''}"


def call_behind(tool: str, tool_input: Any, room_bytes: int) -> dict[str, Any]:
    """Return what a person is shown of the call behind a folder; an input of more bytes by its digest."""
    size = len(msgspec.json.encode(tool_input))
    if size <= room_bytes:
        return {"tool": tool, "input": tool_input}
    return {"tool": tool, "input_digest": input_digest(tool_input), "input_bytes": size}


def digest_behind(request: Request) -> str | None:
    """Return the digest of the input behind a request that comes first; None where its metadata names none."""
    behind = request.metadata.get(BEHIND)
    if not isinstance(behind, Mapping) or request.input is not None:
        return None
    digest = behind.get("input_digest")
    return input_digest(behind["input"]) if "input" in behind else digest if isinstance(digest, str) else None


def judge(
    state: SessionState, policy: Policy, call: Call, request_id: str, standing: Sequence[StandingGrant]
) -> tuple[Evaluation, frozenset[str]]:
    """The evaluation of a call under these grants, and the ids of all grants that it rests on.

    What must come first and is not allowed raises it, as parts that no grant lifts: a person must answer.
    """
    grants = [grant.as_policy_grant() for grant in standing] if standing else ()
    evaluation = policy.evaluate(call, grants)
    used = _grants_of(evaluation) if standing else _NO_GRANTS
    if not evaluation.ask_first or evaluation.verdict is Verdict.DENY:
        return evaluation, used
    for number, first in enumerate(evaluation.ask_first, 1):
        # What comes first may meet demands that the call itself does not.
        counting = that_are_signed(standing, demands_on(policy, first))
        judged = policy.evaluate(first, [grant.as_policy_grant() for grant in counting])
        if judged.verdict is Verdict.ALLOW:
            used |= _grants_of(judged)
            continue
        asked_as = first_request_id(request_id, first, number)
        if judged.verdict is Verdict.DENY or not _was_allowed(state, asked_as, first, call):
            evaluation = _raised(evaluation, first, judged)
    return evaluation, used


_NO_GRANTS: Final[frozenset[str]] = frozenset()


def _grants_of(evaluation: Evaluation) -> frozenset[str]:
    return frozenset(grant_id for part in evaluation.parts for grant_id in part.grants)


def _was_allowed(state: SessionState, request_id: str, first: Call, call: Call) -> bool:
    """Whether somebody allowed it for this very call: a person, or a decider. What rules and grants say is asked anew."""
    settled = state.settled.get(request_id)
    if settled is None or settled.outcome != "allowed" or settled.cause is not None:
        return False
    if settled.input_digest != input_digest(call.input):
        # Another command, or none was shown to whoever allowed the folder.
        return False
    request = settled.request
    if (request.permission, request.patterns) != (first.permission, first.patterns):
        return False
    return settled.reply is not None or (request.evaluation is not None and request.evaluation.verdict is Verdict.ASK)


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
