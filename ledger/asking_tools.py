"""A tool call as requests: what its dialect wants allowed first, each asked by itself, then the call.

Pure. OpenCode and BRUTUS ask about directories outside the project before the command that touches them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ledger.errors import InputError
from ledger.ids import check_id
from ledger.limits import PATTERN_COUNT, PATTERN_LENGTH_BYTES
from ledger.policy.asked import permission_of
from ledger.policy.model import Call, Evaluation, Policy
from ledger.requests import check_name, make_question


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a tool call; the fields are arguments of `Session.submit`."""

    permission: str
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    request_id: str
    cwd: str | None
    tool_name: str | None = None
    tool_input: Any = None

    def arguments(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


def tool_requests(
    policy: Policy, tool_name: str, tool_input: Any, *, request_id: str, cwd: str | None = None
) -> tuple[ToolRequest, ...]:
    """The requests of a tool call in the order in which they are asked; the last one is the call itself.

    Those before it have ids made of `request_id`, so that asking again with it attaches to them too. Raises
    InputError.
    """
    if not isinstance(tool_input, Mapping):
        raise InputError(f"the input of a tool must be an object, not {type(tool_input).__name__}")
    permission = permission_of(policy.source.dialect, check_name(tool_name, "tool name"))
    # Checked as `submit` checks it, so that what is judged here and there is the same.
    call = make_question(permission, (), tool_name=tool_name, tool_input=dict(tool_input), cwd=cwd).call
    evaluation = policy.evaluate(call)
    first = tuple(_first_requests(policy, evaluation, request_id))
    own = ToolRequest(
        permission=call.permission,
        patterns=_shown_patterns(policy, call, evaluation),
        always=_grantable(evaluation.always),
        request_id=request_id,
        cwd=cwd,
        tool_name=tool_name,
        tool_input=call.input,
    )
    return (*first, own)


def _first_requests(policy: Policy, evaluation: Evaluation, request_id: str) -> Iterator[ToolRequest]:
    for number, call in enumerate(evaluation.ask_first, 1):
        more = f".{number}" if number > 1 else ""
        yield ToolRequest(
            permission=call.permission,
            patterns=call.patterns,
            always=_grantable(policy.evaluate(call).always or call.patterns),
            request_id=check_id(f"{request_id}.{call.permission}{more}", "request id"),
            cwd=call.cwd,
        )


def _grantable(entries: tuple[str, ...]) -> tuple[str, ...]:
    """What fits into a grant; what does not is not offered, and an `always` remembers less."""
    return tuple(entry for entry in entries if _fits(entry))[:PATTERN_COUNT]


def _shown_patterns(policy: Policy, call: Call, evaluation: Evaluation) -> tuple[str, ...]:
    """The texts of the parts, for whoever is asked; none where they do not fit or would be judged as something else."""
    texts = tuple(dict.fromkeys(part.text for part in evaluation.parts if part.text))
    if len(texts) > PATTERN_COUNT or not all(map(_fits, texts)):
        return ()
    same = policy.evaluate(msgspec.structs.replace(call, patterns=texts)) == evaluation
    return texts if same else ()


def _fits(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) <= PATTERN_LENGTH_BYTES
