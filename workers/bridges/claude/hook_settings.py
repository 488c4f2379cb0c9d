"""Our hooks in a settings file of Claude Code: built, found, added, removed. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workers.bridges.hook_entries import BLOCKS, Settings, own_line, shared_line
from workers.bridges.hooks.settings import LIMIT_SECONDS

QUESTIONS: Final = ("PreToolUse", "PermissionRequest")
BOTH: Final = "both"
WAYS: Final = (BOTH, *QUESTIONS)
"""The calls to ask about: every call, in the inbox and at the terminal at once; every call, in the inbox; or the calls
that Claude Code would ask its user about."""

NOTES: Final = ("PostToolUse", "PostToolUseFailure")
ENDINGS: Final = ("Stop", "SessionEnd")
EVENTS: Final = (*QUESTIONS, *NOTES, *ENDINGS)

PROMPT_SECONDS: Final = 86400
"""The time a hook waits beside a visible prompt: the longest that hooks may have, since the prompt has no limit
either."""

ENDING_SECONDS: Final = 5
"""The time the client waits for a gateway at the end of a turn and at its own end."""

AGENT: Final = "claude"
"""The agent's name in the command line of a hook."""


def hook_settings(
    words: Sequence[str], limit: float = LIMIT_SECONDS, way: str = BOTH, *, shared: bool = False
) -> Settings:
    """Return the member `hooks` of a settings file for one of WAYS. `shared`: for a file that a team commits.

    The hooks for turn and session ends ask nothing; a failure of theirs would keep the agent from ending its turn.
    """
    said = ["--event", BOTH, *words] if way == BOTH else words
    hook = {"type": "command", "command": _line(said, shared=shared), "timeout": int(limit)}
    patient = {
        "type": "command",
        "command": _line(["--limit", str(PROMPT_SECONDS), *said], shared=shared),
        "timeout": PROMPT_SECONDS,
    }
    ending = {"type": "command", "command": _line(said, shared=shared, otherwise=0), "timeout": ENDING_SECONDS}
    hooks = {"PermissionRequest": patient, **dict.fromkeys(ENDINGS, ending)}
    events = [event for event in EVENTS if way in (BOTH, event) or event not in QUESTIONS]
    return {event: [_entry(event, hooks.get(event, hook))] for event in events}


def _line(words: Sequence[str], *, shared: bool, otherwise: int = BLOCKS) -> str:
    if not shared:
        return own_line(AGENT, words, otherwise=otherwise)
    at = words.index("--on-unreachable") if "--on-unreachable" in words else -1
    return shared_line(AGENT, words, opens=at >= 0 and words[at + 1] == "agent", otherwise=otherwise)


def _entry(event: str, hook: Settings) -> Settings:
    return {"hooks": [hook]} if event in ENDINGS else {"matcher": "*", "hooks": [hook]}


def wanted_events(installed: Sequence[str]) -> list[str]:
    """Return the events that should have a hook of ours, given those that ask."""
    questions = [event for event in QUESTIONS if event in installed]
    return [event for event in EVENTS if event not in QUESTIONS or event in (questions or QUESTIONS)]
