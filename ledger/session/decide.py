"""The decider of a session. Pure: its inputs are the state, the command and `now_ms`.

A command with nothing to do makes no events, so that a repeated one is harmless; a refused command raises. `now_ms` is
the writer's estimate of the server's clock: a decision that depends on it has a time window, which the server checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.session.asks import decide_ask, decide_recheck
from ledger.session.claims import decide_claim, decide_end_claims, decide_release_claim
from ledger.session.commands import (
    AnyCommand,
    Ask,
    Cancel,
    ClaimCall,
    Close,
    Connect,
    Disconnect,
    EndClaims,
    Extend,
    Judging,
    MakeGrant,
    NoteNotification,
    NoteRegression,
    NoteToolFinished,
    Open,
    PassLock,
    Recheck,
    Release,
    ReleaseClaim,
    Repeat,
    Reply,
    Resume,
    Revoke,
    TakeLock,
)
from ledger.session.decision import Decision, require_readable, require_rules
from ledger.session.extending import decide_extend
from ledger.session.freezing import decide_resume
from ledger.session.grants import decide_grant, decide_revoke
from ledger.session.lifecycle import decide_close, decide_open_session
from ledger.session.presence import decide_connect, decide_disconnect, decide_pass_lock, decide_take_lock
from ledger.session.releases import decide_release
from ledger.session.repeats import decide_repeat
from ledger.session.replies import decide_reply
from ledger.session.state import SessionState
from ledger.session.withdrawals import (
    decide_cancel,
    decide_note_notification,
    decide_note_regression,
    decide_note_tool_finished,
)


def decide(state: SessionState, command: AnyCommand, now_ms: int) -> Decision:
    """Return the decision of a command. Raises an error of `ledger.core.errors` when it is refused."""
    if state.newer:
        require_readable(state)
    if state.rules_redacted and isinstance(command, Judging):
        require_rules(state)
    return _DECIDERS[type(command)](state, command, now_ms)


_DECIDERS: dict[type, Callable[[SessionState, Any, int], Decision]] = {
    Open: decide_open_session,
    Close: decide_close,
    Ask: decide_ask,
    Recheck: decide_recheck,
    ClaimCall: decide_claim,
    ReleaseClaim: decide_release_claim,
    EndClaims: decide_end_claims,
    Reply: decide_reply,
    Repeat: lambda state, command, _: decide_repeat(state, command),
    Release: decide_release,
    Resume: decide_resume,
    MakeGrant: decide_grant,
    Revoke: decide_revoke,
    Connect: decide_connect,
    Disconnect: decide_disconnect,
    TakeLock: decide_take_lock,
    PassLock: decide_pass_lock,
    Extend: decide_extend,
    Cancel: decide_cancel,
    NoteToolFinished: decide_note_tool_finished,
    NoteNotification: decide_note_notification,
    NoteRegression: decide_note_regression,
}
