"""The outcome of a request as a command prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.cli.output import CommandOutput
from workers.presentation.words import result_lines

if TYPE_CHECKING:
    from ledger import Result


def print_result(output: CommandOutput, result: Result) -> None:
    """Print CONTRACT's object of a result, or its lines for a person."""
    if output.as_json:
        output.row(result.as_json())
        return
    for line in result_lines(result):
        output.line(line)
