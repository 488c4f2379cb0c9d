"""The requests of a tool call: prerequisites of its dialect, each asked separately, then the call.

OpenCode and BRUTUS ask about directories outside the project before the command that accesses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ledger.core.commitments import same_digest
from ledger.core.errors import InputError
from ledger.core.ids import check_id
from ledger.core.limits import METADATA_BYTES, PATTERN_COUNT, PATTERN_LENGTH_BYTES
from ledger.core.policy import Call, Evaluation, Policy, Verdict
from ledger.core.questions import Question
from ledger.core.requests import AskDetails, check_name, in_folder, make_question
from ledger.masks.own_input import holds_mask
from ledger.policy.dialects import dialect_of
from ledger.session.judging import call_behind, first_request_id
from ledger.session.state import Request, SessionState
from ledger.session.would_run.members import BEHIND

CONFIRM: Final = "confirm"
"""The member of a request's metadata with its dialect's confirm request."""


_FRAME_BYTES: Final = 2048
"""The overhead in metadata around the call behind a folder: names of members, and of the tool."""


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a tool call, as its dialect asks it."""

    permission: str
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    request_id: str
    cwd: str | None
    tool_name: str | None = None
    tool_input: Any = None
    metadata: dict[str, Any] = {}

    def question(self, details: AskDetails) -> Question:
        """Return the question of this request, with the caller's details. Raises InputError."""
        metadata = _joined(self.metadata, details.get("metadata"))
        own: AskDetails = {**details, "metadata": metadata, "cwd": self.cwd}
        if self.tool_name is None:
            own.pop("operands", None)  # a prerequisite runs nothing
        return make_question(
            self.permission,
            self.patterns,
            always=self.always,
            tool_name=self.tool_name,
            tool_input=self.tool_input,
            **own,
        )


def tool_requests(
    policy: Policy,
    tool_name: str,
    tool_input: Any,
    *,
    request_id: str,
    cwd: str | None = None,
    always: Iterable[str] | None = None,
    agent: str | None = None,
) -> tuple[ToolRequest, ...]:
    """Return the requests of a tool call in the order of asking; the last one is the call itself.

    Those before it have ids derived from `request_id`, so that asking again with it attaches to them too. `always` is
    the agent's proposal of what to remember, in place of the dialect's. Raises InputError.
    """
    if not isinstance(tool_input, Mapping):
        raise InputError(f"the input of a tool must be an object, not {type(tool_input).__name__}")
    dialect = dialect_of(policy.source)
    tool_name = dialect.known_tool(check_name(tool_name, "tool name"))
    permission = dialect.permission_of(tool_name)
    # Checked as `submit` checks it, so that the same call is judged here and there.
    call = make_question(permission, (), tool_name=tool_name, tool_input=dict(tool_input), cwd=cwd, agent=agent).call
    evaluation = policy.evaluate(call)
    # Where neither an answer about a directory nor a grant can let the call run, nobody is asked. The agents themselves
    # ask about the directory all the same, and profile `faithful` does as they do.
    is_certain = evaluation.verdict is Verdict.DENY and policy.source.options.get("profile") != "faithful"
    first = () if is_certain else tuple(_first_requests(policy, evaluation, request_id, call))
    own = ToolRequest(
        permission=call.permission,
        patterns=_shown_patterns(policy, call, evaluation),
        always=_grantable(_honoured(policy, call, evaluation, evaluation.always if always is None else tuple(always))),
        request_id=request_id,
        cwd=cwd,
        tool_name=tool_name,
        tool_input=call.input,
        metadata=_confirm(policy, call, evaluation),
    )
    return (*first, own)


def digest_of_run(ran: Question, asked: Request | None) -> str:
    """Return the digest of the call that ran, in the request's folder if it names none."""
    if asked is None or same_digest(ran.digest, asked.digest, asked.salt):
        return ran.digest
    return in_folder(ran, asked.cwd).digest


def as_asked(requests: Iterable[ToolRequest], state: SessionState) -> tuple[ToolRequest, ...]:
    """Return the requests, known ones as they were asked: a change of rules does not make another request."""
    return tuple(_as_asked(request, state) for request in requests)


def _as_asked(request: ToolRequest, state: SessionState) -> ToolRequest:
    own, known = request.tool_name is not None, state.find(request.request_id)
    if known is None or (known.tool_name, known.input) != (request.tool_name, request.tool_input):
        return request
    if holds_mask((known.patterns, known.metadata)):
        # What is known of it is not what was asked.
        return request
    patterns = known.patterns if own else request.patterns
    metadata = {CONFIRM: known.metadata[CONFIRM]} if CONFIRM in known.metadata else {}
    if not own and _names_the_call(state, known):
        metadata = request.metadata
    return msgspec.structs.replace(request, patterns=patterns, always=known.always, metadata=metadata)


def _names_the_call(state: SessionState, known: Request) -> bool:
    """Return whether a prerequisite was asked with the call behind it; those of older logs were not."""
    settled = state.settled.get(known.request_id)
    return BEHIND in known.metadata if settled is None else settled.input_digest is not None


def _confirm(policy: Policy, call: Call, evaluation: Evaluation) -> dict[str, Any]:
    """Return the dialect's confirm request as metadata for display; empty without one, or if it is too long."""
    shown = dialect_of(policy.source).answers.confirmation(call, evaluation)
    return {CONFIRM: shown} if shown and _fits(shown["message"]) else {}


def _first_requests(policy: Policy, evaluation: Evaluation, request_id: str, call: Call) -> Iterator[ToolRequest]:
    for number, first in enumerate(evaluation.ask_first, 1):
        yield ToolRequest(
            permission=first.permission,
            patterns=first.patterns,
            always=_grantable(policy.evaluate(first).always or first.patterns),
            request_id=check_id(first_request_id(request_id, first, number), "request id"),
            cwd=first.cwd,
            # A person cannot judge a folder without the command that accesses it.
            metadata={
                BEHIND: call_behind(call.tool_name or call.permission, call.input, METADATA_BYTES - _FRAME_BYTES)
            },
        )


def _honoured(policy: Policy, call: Call, evaluation: Evaluation, offered: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries of `always` that have an effect; the request lists the suggestions that were left out."""
    # Both take long to import, and only the ask of a tool needs them.
    from ledger.policy.covers import not_accepted  # noqa: PLC0415
    from ledger.policy.offers import narrowed  # noqa: PLC0415

    offered = narrowed(policy, call, evaluation, offered)
    idle = not_accepted(policy, call, evaluation, offered)
    return tuple(entry for entry in offered if entry not in idle)


def _grantable(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries that fit into a grant; the others are not offered, and an `always` remembers less."""
    return tuple(entry for entry in entries if _fits(entry))[:PATTERN_COUNT]


def _shown_patterns(policy: Policy, call: Call, evaluation: Evaluation) -> tuple[str, ...]:
    """Return the texts of the parts for display; none where they do not fit or would be judged differently."""
    texts = tuple(dict.fromkeys(part.text for part in evaluation.parts if part.text))
    if len(texts) > PATTERN_COUNT or not all(map(_fits, texts)):
        return ()
    same = policy.evaluate(msgspec.structs.replace(call, patterns=texts)) == evaluation
    return texts if same else ()


def _joined(own: Mapping[str, Any], given: Any) -> Any:
    """Merge metadata; the caller's members win, except the call behind a folder. A non-object is refused later."""
    if not isinstance(given, Mapping):
        return own if given is None else given
    if BEHIND not in own:
        return {**own, **given}
    behind = own[BEHIND]
    if "input" in behind and _size_bytes(given) + _size_bytes(behind) > METADATA_BYTES - _FRAME_BYTES:
        behind = call_behind(behind["tool"], behind["input"], 0)
    return {**own, **given, BEHIND: behind}


def _size_bytes(value: Any) -> int:
    """Return the size of a value as JSON; 0 for a value that is none, which the check of requests refuses."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return 0


def _fits(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) <= PATTERN_LENGTH_BYTES
