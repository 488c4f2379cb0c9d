"""Warnings for unreadable streams beside the rows of all others."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.log.surveys import StreamProblem
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk, talk_json


def tell_problems(output: CommandOutput, problems: Sequence[StreamProblem]) -> Exit:
    """Name each stream on stderr; return the exit code of the command."""
    for one in problems:
        if output.as_json:
            talk_json(one.as_json())
        else:
            talk(f"warning: {one.text}")
    if problems and not output.as_json:
        talk("hint: `permission-ledger verify --all` says which events are wrong")
    return Exit.FINDINGS if problems else Exit.DONE
