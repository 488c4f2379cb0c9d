"""The rules that Claude Code proposes when it asks, for its local settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.claude.line import ClaudeLine, ClaudeStage
from ledger.policy.claude.words import SAFE_VARIABLES, wraps
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.names import lookups
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT

_PREFIX = late_pattern(r"(\S+)\s+([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?=\s|\Z)")
_NEVER_PROPOSED: Final = (ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT)


def proposal(text: str, *, prefix: bool = True) -> str:
    """Return `Bash(w1 w2 *)` if the second word is a plain one in lower case, else the whole text."""
    found = _PREFIX.match(text) if prefix else None
    return f"Bash({found[1]} {found[2]} *)" if found else f"Bash({text})"


def stage_proposal(stage: ClaudeStage, *, written: bool) -> str:
    """Return the proposal for one sub-command, without harmless assignments.

    Redirections are included if they were asked about.
    """
    text = stage.statement if written or stage.redirected_first else stage.text
    kept = [f"{name}={value.raw}" for name, value in stage.assignments]
    if any(name not in SAFE_VARIABLES for name, _ in stage.assignments):
        return proposal(" ".join([*kept, stage.text]), prefix=False)
    for one in kept:
        text = text.removeprefix(one).lstrip()
    return proposal(text, prefix=not wraps(stage))


def line_proposal(line: ClaudeLine) -> str:
    return proposal(line.text)


def hardened_proposals(proposals: Sequence[str]) -> tuple[str, ...]:
    """Return the proposals without those for programs whose effect an argument can change."""
    return tuple(text for text in proposals if not _risky(text))


def _risky(text: str) -> bool:
    if not text.startswith("Bash("):
        return False
    analysis = lex(text[len("Bash(") : -1])
    names = [command.name or "" for command in analysis.commands]
    if not names or not analysis.plain:
        return True
    return any(name in table for program in names for name in lookups(program) for table in _NEVER_PROPOSED)
