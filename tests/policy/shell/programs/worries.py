"""What a table holds against a command when no rule spells any of its words."""

from __future__ import annotations

from typing import Final

from ledger.policy.shell.forms import Effect, Kind, form_of
from ledger.policy.shell.lexer import lex

_HARMLESS: Final = frozenset({Effect.PLAIN, Effect.READ, Effect.URL})
_GUARDED: Final = frozenset({Kind.CODE, Kind.SCRIPT, Kind.PROGRAM, Kind.WRITE, Kind.EDIT})


def worries(line: str) -> list[str]:
    """Return the words that only a rule for files or one that spells them allows; empty for a harmless command."""
    form = form_of(lex(line).commands[0])
    if form is None:
        return [f"no table for `{line}`"]
    found = [one.reason for one in form.unclear]
    found += [f"{node.name}: only where it is spelled" for node in form.nodes if node.spell or node.always]
    found += [f"{one.effect}: {one.name}" for one in form.options if one.effect not in _HARMLESS]
    found += [f"{one.kind}: {one.text}" for one in form.operands if one.kind in _GUARDED]
    return found


def unspelled(line: str) -> list[str]:
    """Return the worries that no rule for files lifts."""
    files = (
        *(f"{one}:" for one in (Effect.WRITE, Effect.OUTPUT, Effect.EDITS, Effect.FOLDER)),
        f"{Kind.WRITE}:",
        f"{Kind.EDIT}:",
    )
    return [one for one in worries(line) if not one.startswith(files)]
