"""What an ask depends on may change while it is written: the command that judges it again. Pure."""

from __future__ import annotations

from ledger.project import ProjectState
from ledger.session.commands import Ask, Recheck, Release
from ledger.session.state import SessionState


def judge_again(state: SessionState, command: Ask, shared: ProjectState) -> Recheck | Release | None:
    """The command to decide anew with what the project grants now; None when nothing depends on it."""
    request = state.find(command.request_id)
    if request is None or (request.project_version or 0) >= shared.version:
        return None
    if command.request_id in state.pending:
        return Release(
            actor=command.actor,
            policy=command.policy,
            policy_digest=command.policy_digest,
            project=shared,
            request_id=command.request_id,
        )
    settled = state.settled[command.request_id]
    answered = settled.reply is not None and settled.cause is None
    if settled.outcome != "allowed" or answered or not request.rests_on_project:
        return None
    return Recheck(
        actor=command.actor,
        request_id=command.request_id,
        call=command.call,
        policy=command.policy,
        policy_digest=command.policy_digest,
        project=shared,
        live=command.live,
    )
