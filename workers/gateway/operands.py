"""The files that a call executes, in an ask over HTTP.

The gateway finds their names by the rules' own reading of the shell; only the agent's side can hash them. A caller that
says `"operands": "ask"` gets the refusal OPERANDS_WANTED with the list, hashes the files, and asks again with them.
"""

from __future__ import annotations

import msgspec

from ledger.core.errors import OperandsWantedError
from ledger.core.operands import Operand
from ledger.core.policy import Call
from ledger.policy.operands import operands_wanted
from ledger.session.state import SessionState
from workers.gateway.bodies import AskBody, OperandBody


def given_operands(state: SessionState, body: AskBody, request_id: str) -> tuple[Operand, ...] | None:
    """Return the operands of an ask; None if the caller does not look for files.

    Raises OperandsWantedError if the caller must hash files first; a known request is attached to without that.
    """
    if body.operands != "ask":
        return as_operands(body.operands)
    if state.find(request_id) is None:
        require_none(state, call_of_body(state, body), request_id)
    return None


def require_none(state: SessionState, call: Call, request_id: str) -> None:
    """Raise OperandsWantedError with the files that a call executes, if there are any."""
    wanted = operands_wanted(call, state.home)
    if wanted:
        raise OperandsWantedError(
            f"the call executes {len(wanted)} {'file' if len(wanted) == 1 else 'files'} that must be hashed first: "
            "send them in `operands`",
            request_id=request_id,
            session=state.session_id,
            wanted=[msgspec.to_builtins(one) for one in wanted],
        )


def as_operands(given: list[OperandBody] | None) -> tuple[Operand, ...] | None:
    """Return the operands of a body; their values are checked where the ask is."""
    if given is None:
        return None
    return tuple(Operand(one.path, one.sha256, one.found, one.real, one.size_bytes) for one in given)


def call_of_body(state: SessionState, body: AskBody) -> Call:
    """Return the call that an ask is about, in its folder."""
    tool = body.tool if isinstance(body.tool, str) else body.tool_name
    folder = state.cwd if body.cwd is None else body.cwd
    return Call(body.permission or tool or "", tuple(body.patterns or ()), tool, body.input, folder)
