"""`policy shell`: the analysis of a command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ledger.policy.shell import Analysis, ShellCommand, Word, analyse
from ledger.policy.shell.forms import form_of
from ledger.policy.shell.forms.description import form_json, form_text
from workers.cli.output import CommandOutput
from workers.cli.policy.options import policy_command


@policy_command(
    "shell",
    examples=(
        """permission-ledger policy shell 'git log | xargs -n1 rm -rf'""",
        """permission-ledger policy shell 'FOO=1 bash -c "make && make install" > log' --json""",
    ),
    with_rules=False,
)
@click.argument("command")
def shell(*, as_json: bool, command: str) -> None:
    """Show every command that a line would run, at any depth and behind any wrapper, and whether the line is plain.

    Below them stands the normal form of each command: program, sub-commands, options by one name each, operands by what
    they are, and what was not understood. With --json it is the member `form` of a command, null for a program that is
    in no table.
    """
    output = CommandOutput(as_json=as_json)
    analysis = analyse(command)
    if as_json:
        output.row(analysis_json(analysis))
        return
    output.line("plain" if analysis.plain else f"not plain: {analysis.reason}")
    if analysis.commands:
        rows = [_row(one) for one in analysis.commands]
        output.table(("COMMAND", "ASSIGNMENTS", "REDIRECTS", "INSIDE"), rows)
        output.line()
    for text in _forms(analysis):
        output.line(text)


def _forms(analysis: Analysis) -> Iterator[str]:
    """Yield the normal form of each command, and the parts not understood; equal commands once."""
    for command in {one.text: one for one in analysis.commands if one.words}.values():
        form = form_of(command)
        if form is None:
            name = command.name or command.words[0].raw
            yield f"`{command.text}`: no table holds the program `{name}`"
            continue
        yield f"`{command.text}`: {form_text(form)}"
        yield from (f"  not understood: {one.reason}" for one in form.unclear)


def analysis_json(analysis: Analysis) -> dict[str, Any]:
    return {
        "commands": [command_json(one) for one in analysis.commands],
        "plain": analysis.plain,
        "reason": analysis.reason,
    }


def command_json(command: ShellCommand) -> dict[str, Any]:
    """Return a command as JSON. `words` are as the command gets them; a word known only at run time is as written."""
    return {
        "text": command.text,
        "words": [_text(word) for word in command.words],
        "assignments": [f"{one.name}={_text(one.value)}" for one in command.assignments],
        "redirects": [{"operator": one.operator, "target": _text(one.target)} for one in command.redirects],
        "in": command.inside,
        "form": form_json(form_of(command)),
    }


def _text(word: Word) -> str:
    return word.raw if word.resolved is None else word.resolved


def _row(command: ShellCommand) -> tuple[object, ...]:
    assignments = " ".join(f"{one.name}={one.value.raw}" for one in command.assignments)
    redirects = " ".join(one.text for one in command.redirects)
    return command.text, assignments or None, redirects or None, command.inside
