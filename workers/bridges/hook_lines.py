"""The lines that an agent's settings name: for one person's machine, or shared by all who work on a project."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workers.transport.errors import BridgeError

PROGRAM: Final = "permission-ledger"
SHARED_SCOPE: Final = "project"
"""Its settings stand in files that a team commits."""

BLOCKS: Final = 2
"""The exit code of a hook that agents take as "do not run it"; any other failure is none of its opinion."""

NO_OPINION: Final = 1


def own_line(agent: str, words: Sequence[str], *, otherwise: int = BLOCKS) -> str:
    """The line for one person's settings.

    The interpreter by its full path and isolated, so that no folder or variable changes what runs; and where not even
    that starts, the call is blocked: agents take a hook that cannot be run for one without an opinion.
    """
    script = Path(__file__).parent / "hooks" / "run.py"
    return f"{shlex.join([sys.executable, '-I', str(script), agent, *words])} || exit {otherwise}"


def shared_line(agent: str, words: Sequence[str], *, opens: bool = False, otherwise: int = BLOCKS) -> str:
    """The line for settings that others have too: the command by its name, wherever it is installed.

    Where it is not, one line on stderr says so, and the call is blocked; with `opens` it is left to the agent. In a
    shell of its own, since agents start lines by their user's shell.
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
    """The rules' file as a line names it: in full, or within the project. Raises BridgeError for one that others lack."""
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
