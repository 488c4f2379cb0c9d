"""The hooks of ours in a settings file of Claude Code: made, found, added, taken out. No I/O."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workers.bridges.hook_entries import Settings
from workers.bridges.hooks.settings import LIMIT_SECONDS

QUESTIONS: Final = ("PreToolUse", "PermissionRequest")
BOTH: Final = "both"
WAYS: Final = (BOTH, *QUESTIONS)
"""What is asked about: every call, in the inbox and at the terminal at once; every call, in the inbox; or what Claude
Code would ask its user."""

NOTES: Final = ("PostToolUse", "PostToolUseFailure")
ENDINGS: Final = ("Stop", "SessionEnd")
EVENTS: Final = (*QUESTIONS, *NOTES, *ENDINGS)

PROMPT_SECONDS: Final = 86400
"""How long a hook waits beside a prompt that is shown: as long as a hook may, since the prompt has no limit either."""

ENDING_SECONDS: Final = 5
"""How long the client waits at the end of a turn, and at its own, where a gateway does not answer."""

AGENT: Final = "claude"
"""As the hooks' program is told whose hook it is."""


def hook_line(words: Sequence[str], *, blocks: bool = True) -> str:
    """The line that a settings file names.

    The interpreter by its full path and isolated, so that no folder or variable changes what runs; and where not even
    that starts, the call is blocked, because the client takes a hook that cannot be run for one without an opinion.
    Without `blocks` it is for an event that is about no call, where a fault would keep the agent from ending its turn.
    """
    script = Path(__file__).parents[1] / "hooks" / "run.py"
    return f"{shlex.join([sys.executable, '-I', str(script), AGENT, *words])} || exit {2 if blocks else 0}"


def hook_settings(words: Sequence[str], limit: float = LIMIT_SECONDS, way: str = BOTH) -> Settings:
    """The member `hooks` of a settings file with all of ours for one of WAYS."""
    said = ["--event", BOTH, *words] if way == BOTH else words
    hook = {"type": "command", "command": hook_line(said), "timeout": int(limit)}
    patient = {
        "type": "command",
        "command": hook_line(["--limit", str(PROMPT_SECONDS), *said]),
        "timeout": PROMPT_SECONDS,
    }
    ending = {"type": "command", "command": hook_line(said, blocks=False), "timeout": ENDING_SECONDS}
    hooks = {"PermissionRequest": patient, **dict.fromkeys(ENDINGS, ending)}
    events = [event for event in EVENTS if way in (BOTH, event) or event not in QUESTIONS]
    return {event: [_entry(event, hooks.get(event, hook))] for event in events}


def _entry(event: str, hook: Settings) -> Settings:
    return {"hooks": [hook]} if event in ENDINGS else {"matcher": "*", "hooks": [hook]}


def wanted_events(installed: Sequence[str]) -> list[str]:
    """The events that should have a hook of ours, by the questions that have one."""
    questions = [event for event in QUESTIONS if event in installed]
    return [event for event in EVENTS if event not in QUESTIONS or event in (questions or QUESTIONS)]
