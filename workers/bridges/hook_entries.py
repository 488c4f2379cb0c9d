"""Our hooks in an agent's settings: their command lines, and their entries found, added, removed. No I/O.

Claude Code, Codex, Gemini CLI and Qwen Code share one form: `{"hooks": {EVENT: [{"matcher": …, "hooks": [HOOK]}]}}`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from workers.transport.errors import BridgeError

SCRIPT: Final = "workers/bridges/hooks/run.py"

Settings = dict[str, Any]
Entries = Mapping[str, Sequence[Any]]
"""By event."""


def is_ours(hook: Any, agent: str) -> bool:
    """Return whether we wrote this hook for this agent, with any version and interpreter."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str):
        return False
    return f"{SCRIPT} {agent}" in command.replace("'", "") or f"permission-ledger hook {agent} " in command


def with_entries(settings: Settings, agent: str, entries: Entries) -> Settings:
    """Return the settings with these instead of older entries of ours; nothing else changes. Raises BridgeError."""
    changed = without_entries(settings, agent)
    hooks = changed.setdefault("hooks", {})
    for event, ours in entries.items():
        before = hooks.get(event, [])
        if not isinstance(before, list):
            raise BridgeError(f"`hooks.{event}` in the settings is not a list; correct it first")
        hooks[event] = [*before, *ours]
    return changed


def without_entries(settings: Settings, agent: str) -> Settings:
    """Return the settings without our hooks, and without what becomes empty. Raises BridgeError."""
    changed = deepcopy(settings)
    hooks = changed.get("hooks", {})
    # Beside lists by event an agent may keep switches here: Gemini CLI has had `enabled`.
    if not isinstance(hooks, dict) or not all(isinstance(found, list | bool | str) for found in hooks.values()):
        raise BridgeError("`hooks` in the settings is not of the form that the agent reads; correct it first")
    for event in [event for event, found in hooks.items() if isinstance(found, list)]:
        kept = [one for entry in hooks[event] if (one := _without(entry, agent)) is not None]
        if kept:
            hooks[event] = kept
        elif hooks[event]:
            del hooks[event]
    if not hooks and settings.get("hooks"):
        del changed["hooks"]
    return changed


def events_of_ours(settings: Settings, agent: str) -> list[str]:
    """Return the events that a hook of ours answers."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return []
    return [
        event
        for event, entries in hooks.items()
        if isinstance(entries, list) and any(_has_ours(entry, agent) for entry in entries)
    ]


def _has_ours(entry: Any, agent: str) -> bool:
    inner = entry.get("hooks") if isinstance(entry, dict) else None
    return isinstance(inner, list) and any(is_ours(hook, agent) for hook in inner)


def _without(entry: Any, agent: str) -> Any:
    if not _has_ours(entry, agent):
        return entry
    kept = [hook for hook in entry["hooks"] if not is_ours(hook, agent)]
    return {**entry, "hooks": kept} if kept else None


PROGRAM: Final = "permission-ledger"
SHARED_SCOPE: Final = "project"
"""The scope whose settings files a team commits."""

BLOCKS: Final = 2
"""The exit code of a hook that agents take as "do not run it"; any other failure counts as no opinion."""

NO_OPINION: Final = 1


def own_line(agent: str, words: Sequence[str], *, otherwise: int = BLOCKS) -> str:
    """Return the line for one person's settings.

    The interpreter is named by its full path and isolated, so that no folder or variable changes what runs. If it does
    not start, the call is blocked: agents take a hook that fails to start for one without an opinion.
    """
    script = Path(__file__).parent / "hooks" / "run.py"
    return f"{shlex.join([sys.executable, '-I', str(script), agent, *words])} || exit {otherwise}"


def shared_line(agent: str, words: Sequence[str], *, opens: bool = False, otherwise: int = BLOCKS) -> str:
    """Return the line for settings that others share: the command by its name, wherever it is installed.

    If it is not installed, one line on stderr says so, and the call is blocked; with `opens` it is left to the agent.
    It runs in a shell of its own, since agents start lines by their user's shell.
    """
    missing = otherwise and (NO_OPINION if opens else BLOCKS)
    meanwhile = "this call is left to the agent" if opens else "every tool call is blocked"
    said = f"{PROGRAM} is not installed here, so {meanwhile}: pip install {PROGRAM}"
    script = (
        f'command -v {PROGRAM} >/dev/null || {{ echo "{said}" >&2; exit {missing}; }}; '
        f'cd "${{CLAUDE_PROJECT_DIR:-${{GEMINI_PROJECT_DIR:-.}}}}"; {PROGRAM} hook {agent} "$@" || exit {otherwise}'
    )
    return shlex.join(["sh", "-c", script, PROGRAM, *words])


def rules_word(rules: str, scope: str) -> str:
    """Return the rules' file for a line: absolute, or within the project. Raises BridgeError if others lack it."""
    path = Path(rules).absolute()
    if scope != SHARED_SCOPE:
        return str(path)
    try:
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    except ValueError:
        raise BridgeError(
            f"the rules `{rules}` are outside the project, where others do not have them; put them into the project, "
            "or leave --rules out, and the gateway's own rules judge"
        ) from None
