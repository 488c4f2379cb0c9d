"""The operands of a request at its claim: those of the call that may run, compared with the approved ones. Pure."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ledger.core.errors import OperandsWantedError
from ledger.core.operands import Operand, WantedOperand, operand_change
from ledger.core.policy import Call
from ledger.core.questions import Question
from ledger.policy.operands import operands_wanted
from ledger.session.state import SessionState, Settled


def call_to_run(settled: Settled, question: Question) -> Call:
    """Return the call that may run: as asked, or with the input as a person changed it; in the request's folder."""
    call, edited = question.call, settled.updated_input
    folder = settled.request.cwd if call.cwd is None else call.cwd
    return replace(call, cwd=folder, input=call.input if edited is None else edited)


def wanted_at_claim(state: SessionState, settled: Settled, question: Question) -> tuple[WantedOperand, ...]:
    """Return the files to look at for a claim; none for a request of whose files nothing is known."""
    if settled.request.operands is None:
        return ()
    return operands_wanted(call_to_run(settled, question), state.home)


def require_operands(
    state: SessionState, settled: Settled, question: Question, now: tuple[Operand, ...] | None
) -> None:
    """Raise OperandsWantedError where the files must be hashed again for a claim, and were not."""
    wanted = wanted_at_claim(state, settled, question) if now is None else ()
    if wanted:
        request_id = settled.request.request_id
        raise OperandsWantedError(
            f"the files that request `{request_id}` executes must be hashed again for its claim: send them in `operands`",
            request_id=request_id,
            session=state.session_id,
            wanted=[msgspec.to_builtins(one) for one in wanted],
        )


def changed_operand(settled: Settled, now: tuple[Operand, ...] | None) -> str | None:
    """Return what changed about the files since the approval, in words; None where nothing did."""
    approved = settled.request.operands
    if approved is None or now is None:
        return None
    return operand_change(approved, now, settled.request.cwd, is_edited=settled.updated_input is not None)
