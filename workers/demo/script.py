"""The calls of the demo, which are a recorded session's, the script of its people, and the expected outcomes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec

from ledger.core.policy import ReplyKind


class RecordedAsk(msgspec.Struct, frozen=True, tag_field="kind", tag="ask"):
    """A call, or the part of it that needs a permission of its own."""

    id: str
    permission: str
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    metadata: dict[str, Any]
    tool: dict[str, str]


class RecordedEnd(msgspec.Struct, frozen=True, tag_field="kind", tag="tool_finished"):
    """The end of a call in the recording."""

    call_id: str
    title: str
    output: str
    ok: bool


class Header(msgspec.Struct, frozen=True):
    """The source of the recording, and the rules in force."""

    recorded: str
    project: str
    cwd: str
    prompt: str
    rules: list[dict[str, str]]


class RecordedCall(msgspec.Struct, frozen=True):
    """A tool call: its asks, of which each needs the one before it allowed, and its end."""

    asks: tuple[RecordedAsk, ...]
    end: RecordedEnd


class Recording(msgspec.Struct, frozen=True):
    """A recorded session. `turns` are the model's: the calls of one do not wait for one another."""

    header: Header
    turns: tuple[tuple[RecordedCall, ...], ...]


@cache
def recording() -> Recording:
    head, *lines = files("workers").joinpath("data/recorded-session.jsonl").read_text(encoding="utf-8").splitlines()
    played = [msgspec.json.decode(line, type=RecordedAsk | RecordedEnd) for line in lines]
    ends = {line.call_id: line for line in played if isinstance(line, RecordedEnd)}
    asks = [line for line in played if isinstance(line, RecordedAsk)]
    turns = [list(turn) for _, turn in groupby(asks, key=lambda ask: ask.tool["message_id"])]
    return Recording(msgspec.json.decode(head, type=Header), tuple(_calls(turn, ends) for turn in turns))


def _calls(turn: list[RecordedAsk], ends: dict[str, RecordedEnd]) -> tuple[RecordedCall, ...]:
    by_call: dict[str, list[RecordedAsk]] = {}
    for ask in turn:
        by_call.setdefault(ask.tool["call_id"], []).append(ask)
    return tuple(RecordedCall(tuple(asks), ends[call_id]) for call_id, asks in by_call.items())


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
