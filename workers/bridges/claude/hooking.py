"""The hooks of ours in a settings file of Claude Code: made, found, added, taken out. No I/O."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workers.bridges.hook_entries import Settings
from workers.bridges.hooks.settings import LIMIT_SECONDS

CALLS: Final = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
ENDINGS: Final = ("Stop", "SessionEnd")
EVENTS: Final = (*CALLS, *ENDINGS)

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


def hook_settings(words: Sequence[str], limit: float = LIMIT_SECONDS) -> Settings:
    """The member `hooks` of a settings file with all of ours."""
    hook = {"type": "command", "command": hook_line(words), "timeout": int(limit)}
    ending = {"type": "command", "command": hook_line(words, blocks=False), "timeout": ENDING_SECONDS}
    calls: Settings = {event: [{"matcher": "*", "hooks": [hook]}] for event in CALLS}
    return {**calls, **{event: [{"hooks": [ending]}] for event in ENDINGS}}
