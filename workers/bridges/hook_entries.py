"""Our hooks in an agent's settings: their command lines, and their entries found, added, removed. No I/O.

Claude Code, Codex, Gemini CLI and Qwen Code share one form: `{"hooks": {EVENT: [{"matcher": …, "hooks": [HOOK]}]}}`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, NamedTuple

from workers.bridges.hooks.exchange import ENTRYPOINT
from workers.bridges.hooks.settings import LIMIT_SECONDS
from workers.bridges.options import BridgeOptions
from workers.transport.place import PARENT as TRACE_PARENT
from workers.transport.place import BridgeError

SCRIPT: Final = "workers/bridges/hooks/run.py"

Settings = dict[str, Any]
Entries = Mapping[str, Sequence[Any]]
"""By event."""


class InstallNote(NamedTuple):
    """A sentence about an installed hook; `ok` is False for one that calls for something to be done."""

    ok: bool
    text: str


def is_ours(hook: Any, agent: str) -> bool:
    """Return whether we wrote this hook for this agent, with any version and interpreter."""
    if not isinstance(hook, dict):
        return False
    command, url = hook.get("command"), hook.get("url")
    if isinstance(url, str):
        return url.endswith(f"/v1/hooks/{agent}")
    if not isinstance(command, str):
        return False
    return f"{SCRIPT} {agent}" in command.replace("'", "") or f"permission-ledger hook {agent} " in command


def with_entries(settings: Settings, agent: str, entries: Entries, token: str | None = None) -> Settings:
    """Return the settings with these instead of older entries of ours; nothing else changes. Raises BridgeError.

    `token` is that of hooks over HTTP, which have it from a variable.
    """
    changed = without_entries(settings, agent)
    if token is not None:
        environment = changed.setdefault("env", {})
        if not isinstance(environment, dict):
            raise BridgeError("`env` in the settings is not an object; correct it first")
        environment[TOKEN_VARIABLE] = token
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
    if token_in(changed) is not None:
        del changed["env"][TOKEN_VARIABLE]
        if not changed["env"]:
            del changed["env"]
    return changed


def url_of_ours(settings: Settings, agent: str) -> str | None:
    """Return the address of the gateway that our hooks over HTTP ask; None without such hooks."""
    hooks = settings.get("hooks")
    lists = hooks.values() if isinstance(hooks, dict) else ()
    ours = (hook for entries in lists for entry in entries if _has_ours(entry, agent) for hook in entry["hooks"])
    found = (hook["url"].removesuffix(f"/v1/hooks/{agent}") for hook in ours if is_ours(hook, agent) and "url" in hook)
    return next(found, None)


def token_in(settings: Settings) -> str | None:
    """Return the token of our hooks over HTTP."""
    environment = settings.get("env")
    token = environment.get(TOKEN_VARIABLE) if isinstance(environment, dict) else None
    return token if isinstance(token, str) else None


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


AGENT: Final = "claude"
"""Claude Code's name in the command line of a hook."""

TOKEN_VARIABLE: Final = "PERMISSION_LEDGER_HOOK_TOKEN"  # noqa: S105 - the name of a variable
"""The variable, among Claude Code's settings, of the token of hooks over HTTP."""

OPTIONS_HEADER: Final = "Permission-Ledger-Hook"
"""The header of a hook over HTTP with the options of the command."""

ENTRYPOINT_HEADER: Final = "Permission-Ledger-Entrypoint"

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
    said = f"{PROGRAM} is not installed here, so {meanwhile}: install it from its repository or wheel"
    script = (
        f'command -v {PROGRAM} >/dev/null || {{ echo "{said}" >&2; exit {missing}; }}; '
        f'cd "${{CLAUDE_PROJECT_DIR:-${{GEMINI_PROJECT_DIR:-.}}}}"; {PROGRAM} hook {agent} "$@" || exit {otherwise}'
    )
    return shlex.join(["sh", "-c", script, PROGRAM, *words])


def command_line(agent: str, words: Sequence[str], *, shared: bool, otherwise: int = BLOCKS) -> str:
    """Return the line for one person's settings, or for `shared` ones, which a team commits."""
    if not shared:
        return own_line(agent, words, otherwise=otherwise)
    at = words.index("--on-unreachable") if "--on-unreachable" in words else -1
    return shared_line(agent, words, opens=at >= 0 and words[at + 1] == "agent", otherwise=otherwise)


def hook_words(
    options: BridgeOptions, scope: str = "user", *, agent: str = AGENT, limit: float | None = None
) -> list[str]:
    """Return the options to install a hook with. Raises BridgeError for rules that others would not have."""
    words = ["--on-unreachable", options.on_unreachable, *([] if limit is None else ["--limit", f"{limit:g}"])]
    is_own = agent != AGENT or options.dialect == BridgeOptions().dialect
    dialect = None if is_own else options.dialect
    for name, value in (("--session", options.session), ("--project", options.project), ("--dialect", dialect)):
        words += [] if value is None else [name, value]
    words += [word for name, text in options.deadlines.items() for word in (f"--{name}", text)]
    words += [] if options.rules is None else ["--rules", rules_word(options.rules, scope)]
    words += [] if options.profile is None else ["--profile", options.profile]
    return [*words, "--grace", f"{options.grace:g}"]


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


QUESTIONS: Final = ("PreToolUse", "PermissionRequest")
BOTH: Final = "both"
WAYS: Final = (BOTH, *QUESTIONS)
"""The calls to ask about: every call, in the inbox and at the terminal at once; every call, in the inbox; or the calls
that Claude Code would ask its user about."""

NOT_ASKED: Final = {
    "PreToolUse": "PreToolUse alone: what no rule decides waits in the inbox; nobody at the terminal is asked",
    "PermissionRequest": "PermissionRequest alone: what Claude Code's own rules or its mode allow is not asked about. "
    "In mode `auto`, in which 2.1.330 starts at a terminal, that is every call; and `claude -p` asks nobody",
}
"""The calls that a way of asking leaves out, for the one who installs it."""

NOTES: Final = ("PostToolUse", "PostToolUseFailure")
ENDINGS: Final = ("Stop", "SessionEnd")
EVENTS: Final = (*QUESTIONS, *NOTES, *ENDINGS)

PROMPT_SECONDS: Final = 86400
"""The time a hook waits beside a visible prompt: the longest that hooks may have, since the prompt has no limit
either."""

ENDING_SECONDS: Final = 5
"""The time the client waits for a gateway at the end of a turn and at its own end."""


def hook_settings(
    words: Sequence[str], limit: float = LIMIT_SECONDS, way: str = BOTH, *, shared: bool = False
) -> Settings:
    """Return the member `hooks` of a settings file for one of WAYS. `shared`: for a file that a team commits.

    The hooks for turn and session ends ask nothing; a failure of theirs would keep the agent from ending its turn.
    """
    said = _said(words, way)
    hook = {"type": "command", "command": command_line(AGENT, said, shared=shared), "timeout": int(limit)}
    patient = {
        "type": "command",
        "command": command_line(AGENT, [*said, "--limit", str(PROMPT_SECONDS)], shared=shared),
        "timeout": PROMPT_SECONDS,
    }
    ending = {
        "type": "command",
        "command": command_line(AGENT, said, shared=shared, otherwise=0),
        "timeout": ENDING_SECONDS,
    }
    return _entries(way, hook, {"PermissionRequest": patient, **dict.fromkeys(ENDINGS, ending)})


def http_hook_settings(url: str, words: Sequence[str], limit: float = LIMIT_SECONDS, way: str = BOTH) -> Settings:
    """Return the member `hooks` with hooks of type `http`, answered by the gateway at `url`.

    Every failure of a question blocks the call, for a client that knows `onFailure`.
    """

    def hook(seconds: float, *more: str, **blocks: str) -> Settings:
        headers = {
            "Authorization": f"Bearer ${TOKEN_VARIABLE}",
            OPTIONS_HEADER: shlex.join([*_said(words, way), *more]),
            ENTRYPOINT_HEADER: f"${ENTRYPOINT}",
            "traceparent": f"${TRACE_PARENT}",
        }
        return {
            "type": "http",
            "url": f"{url}/v1/hooks/{AGENT}",
            "timeout": int(seconds),
            **blocks,
            "headers": headers,
            "allowedEnvVars": [TOKEN_VARIABLE, ENTRYPOINT, TRACE_PARENT],
        }

    others = {
        "PreToolUse": hook(limit, onFailure="block"),
        "PermissionRequest": hook(PROMPT_SECONDS, "--limit", str(PROMPT_SECONDS), onFailure="block"),
        **dict.fromkeys(ENDINGS, hook(ENDING_SECONDS)),
    }
    return _entries(way, hook(limit), others)


def _said(words: Sequence[str], way: str) -> Sequence[str]:
    return ["--event", BOTH, *words] if way == BOTH else words


def _entries(way: str, hook: Settings, others: Mapping[str, Settings]) -> Settings:
    events = [event for event in EVENTS if way in (BOTH, event) or event not in QUESTIONS]
    return {event: [_entry(event, others.get(event, hook))] for event in events}


def _entry(event: str, hook: Settings) -> Settings:
    return {"hooks": [hook]} if event in ENDINGS else {"matcher": "*", "hooks": [hook]}


def wanted_events(installed: Sequence[str]) -> list[str]:
    """Return the events that should have a hook of ours, given those that ask."""
    questions = [event for event in QUESTIONS if event in installed]
    return [event for event in EVENTS if event not in QUESTIONS or event in (questions or QUESTIONS)]
