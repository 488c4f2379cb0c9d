"""The hooks of ours in a settings file of Claude Code: made, found, added, taken out. No I/O."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from workers.bridges.errors import BridgeError
from workers.bridges.hooks.settings import LIMIT_SECONDS

CALLS: Final = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
ENDINGS: Final = ("Stop", "SessionEnd")
EVENTS: Final = (*CALLS, *ENDINGS)

ENDING_SECONDS: Final = 5
"""How long the client waits at the end of a turn, and at its own, where a gateway does not answer."""

SCRIPT: Final = "workers/bridges/hooks/run.py"

Settings = dict[str, Any]


def hook_line(words: Sequence[str], *, blocks: bool = True) -> str:
    """The line that a settings file names.

    The interpreter by its full path and isolated, so that no folder or variable changes what runs; and where not even
    that starts, the call is blocked, because the client takes a hook that cannot be run for one without an opinion.
    Without `blocks` it is for an event that is about no call, where a fault would keep the agent from ending its turn.
    """
    script = Path(__file__).parents[1] / "hooks" / "run.py"
    return f"{shlex.join([sys.executable, '-I', str(script), 'claude', *words])} || exit {2 if blocks else 0}"


def hook_settings(words: Sequence[str], limit: float = LIMIT_SECONDS) -> Settings:
    """The member `hooks` of a settings file with all of ours."""
    hook = {"type": "command", "command": hook_line(words), "timeout": int(limit)}
    ending = {"type": "command", "command": hook_line(words, blocks=False), "timeout": ENDING_SECONDS}
    calls: Settings = {event: [{"matcher": "*", "hooks": [hook]}] for event in CALLS}
    return {**calls, **{event: [{"hooks": [ending]}] for event in ENDINGS}}


def is_ours(hook: Any) -> bool:
    """Whether a hook is one that we wrote, by whichever version and interpreter."""
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and f"{SCRIPT} claude" in command.replace("'", "")


def with_hooks(settings: Settings, words: Sequence[str]) -> Settings:
    """The settings with our hooks in the place of older ones of ours; nothing else changes. Raises BridgeError."""
    changed = without_hooks(settings)
    hooks = changed.setdefault("hooks", {})
    for event, entries in hook_settings(words).items():
        hooks[event] = [*hooks.get(event, []), *entries]
    return changed


def without_hooks(settings: Settings) -> Settings:
    """The settings without our hooks, and without what is empty because of that. Raises BridgeError."""
    changed = deepcopy(settings)
    hooks = changed.get("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise BridgeError("`hooks` in the settings is not of the form that Claude Code reads; put it right first")
    for event in list(hooks):
        kept = [one for entry in hooks[event] if (one := _without(entry)) is not None]
        if kept:
            hooks[event] = kept
        elif hooks[event]:
            del hooks[event]
    if not hooks and settings.get("hooks"):
        del changed["hooks"]
    return changed


def _without(entry: Any) -> Any:
    inner = entry.get("hooks") if isinstance(entry, dict) else None
    if not isinstance(inner, list) or not any(map(is_ours, inner)):
        return entry
    kept = [hook for hook in inner if not is_ours(hook)]
    return {**entry, "hooks": kept} if kept else None


def installed_events(settings: Settings) -> list[str]:
    """The events that a hook of ours answers."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return []
    return [event for event, entries in hooks.items() if isinstance(entries, list) and any(map(_has_ours, entries))]


def _has_ours(entry: Any) -> bool:
    inner = entry.get("hooks") if isinstance(entry, dict) else None
    return isinstance(inner, list) and any(map(is_ours, inner))
