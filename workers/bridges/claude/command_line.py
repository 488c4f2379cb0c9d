"""The rewritten command line of Claude Code, so that its permission requests reach the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from workers.bridges.claude.hook_settings import BOTH, hook_settings
from workers.bridges.claude.protocol import ASKING_MODES
from workers.transport.errors import BridgeError

PROMPT_TOOL: Final = "--permission-prompt-tool"
SETTINGS: Final = "--settings"
MODE: Final = "--permission-mode"
SKIPPING: Final = ("--dangerously-skip-permissions", "--allow-dangerously-skip-permissions")
_QUESTIONS: Final = frozenset({"-v", "--version", "-h", "--help"})


class Wrapped(NamedTuple):
    """The command to run. `on_stdio`: it speaks the control protocol through the bridge; otherwise it asks by hooks."""

    command: tuple[str, ...]
    on_stdio: bool


def wrap(command: Sequence[str], hook_words: Sequence[str], way: str = BOTH) -> Wrapped:
    """Return the command for stdio if it has `--input-format stream-json`, else with our hooks for this run.

    `hook_words` are the options of those hooks, `way` the calls that they ask about. Raises BridgeError if the
    command's own settings are in the way.
    """
    if _QUESTIONS & set(command[1:]):
        return Wrapped(tuple(command), on_stdio=False)
    if _value(command, "--input-format") == "stream-json":
        named = _value(command, PROMPT_TOOL)
        if named is None:
            return Wrapped((*command, PROMPT_TOOL, "stdio"), on_stdio=True)
        if named != "stdio":
            raise BridgeError(f"the command asks its own tool for permission (`{PROMPT_TOOL} {named}`); leave that out")
        return Wrapped(tuple(command), on_stdio=True)
    if _value(command, SETTINGS) is not None:
        raise BridgeError(f"the command has `{SETTINGS}` of its own; use `permission-ledger bridge claude --install`")
    settings = json.dumps({"hooks": hook_settings(hook_words, way=way)}, separators=(",", ":"))
    return Wrapped((command[0], SETTINGS, settings, *command[1:]), on_stdio=False)


def asking(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command in a mode that asks, whatever the settings say. Raises BridgeError for another mode."""
    named = _value(command, MODE)
    wrong = next((word for word in command if word in SKIPPING), None)
    if wrong is not None or (named is not None and named not in ASKING_MODES):
        said = wrong or f"{MODE} {named}"
        raise BridgeError(f"the command says `{said}`, and the bridge --require-asking; leave one of them out")
    return tuple(command) if named is not None else (command[0], MODE, "default", *command[1:])


def _value(command: Sequence[str], option: str) -> str | None:
    for index, word in enumerate(command):
        if word == option and index + 1 < len(command):
            return command[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
