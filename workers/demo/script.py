"""The script of the demo's people, and the expected outcomes. The calls are the recording's."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from ledger.core.policy import ReplyKind

AGENT: Final = "opencode"
PERSON: Final = "ann"
PHONE: Final = "anns-phone"

THINKING_SECONDS: Final = 0.08
"""The thinking time of a model, which takes 0.7 s in the recording."""

LOOK_SECONDS: Final = 0.05
"""The interval at which the agent looks who is online."""

READING_SECONDS: Final = 0.15
"""The reading time of a person after the last new request."""

NOBODY_THERE_SECONDS: Final = 2
"""The unattended time limit of a request; 7 days outside the demo."""


class ScriptedReply(NamedTuple):
    """A person's reply to requests of a permission and a shell-style pattern."""

    permission: str
    pattern: str
    reply: ReplyKind
    message: str | None = None
    then_leaves: bool = False


ANSWERS: Final = (
    ScriptedReply("bash", "git log *", "always"),
    ScriptedReply("webfetch", "*", "reject", "Stay offline: docs/rounding.md says how this shop rounds."),
    ScriptedReply("bash", "python -m pytest*", "session"),
    ScriptedReply("bash", "git commit *", "once", then_leaves=True),
    ScriptedReply("*", "*", "once"),
)
"""The replies; the first that fits counts."""


def answer_to(permission: str, patterns: tuple[str, ...]) -> ScriptedReply:
    return next(
        answer
        for answer in ANSWERS
        if fnmatchcase(permission, answer.permission) and any(fnmatchcase(one, answer.pattern) for one in patterns)
    )


class ExpectedOutcome(NamedTuple):
    """The expected end of a request: outcome, the reply, and its cause."""

    outcome: str
    reply: str | None = None
    cause: str | None = None


BY_RULE: Final = ExpectedOutcome("allowed")

ENDINGS: Final = {
    "call_glob": BY_RULE,
    "call_read_basket": BY_RULE,
    "call_grep": BY_RULE,
    "call_status": ExpectedOutcome("allowed", "once"),
    "call_log": ExpectedOutcome("allowed", "always"),
    "call_log_patch": ExpectedOutcome("allowed", "always", "cascade"),
    "call_webfetch": ExpectedOutcome("corrected", "reject"),
    "call_read_rounding": BY_RULE,
    "call_test_before": ExpectedOutcome("allowed", "session"),
    "call_edit": ExpectedOutcome("allowed", "once"),
    "call_test_after": BY_RULE,
    "call_clean": ExpectedOutcome("allowed", "once"),
    "call_commit": ExpectedOutcome("allowed", "once"),
    "call_push": ExpectedOutcome("denied"),
    "call_note": ExpectedOutcome("expired"),
}
"""The outcomes by request. `call_note_2` is never asked: it would have followed an allowed `call_note`."""
