"""The command lines in an agent's settings: for one person's machine, or shared by all who work on a project."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workers.transport.errors import BridgeError

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
