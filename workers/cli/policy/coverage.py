"""`policy coverage`: the programs, sub-commands and options that have tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click
import msgspec

from ledger.core.errors import InputError
from ledger.policy.shell.forms import known_programs
from ledger.policy.shell.forms.description import Covered, covered
from workers.cli.output import CommandOutput
from workers.cli.policy.options import policy_command

_MEANINGS: Final = {
    "plain": "plain flags and values",
    "read": "read a file",
    "write": "write a file",
    "output": "write a product",
    "edits": "change the files given",
    "folder": "work in a folder",
    "url": "take an address",
}
"""The meaning of options by effect; options of other effects need a rule that spells them."""


@policy_command(
    "coverage",
    examples=(
        "permission-ledger policy coverage",
        "permission-ledger policy coverage git push",
        "permission-ledger policy coverage git push --json",
    ),
    with_rules=False,
)
@click.argument("words", nargs=-1, metavar="[PROGRAM [SUBCOMMAND]...]")
def coverage(*, as_json: bool, words: tuple[str, ...]) -> None:
    """List the programs that have tables, or show what the table of one program or sub-command holds.

    What no table holds is not understood, and a command with it is asked about in the hardened profile. With --json
    each program is one object: `program`, `version`, `options` (by effect), `operands`, `commands`, `options_count`,
    `commands_count`, `spelled` (only a rule that names it allows it) and `whole` (only a rule that spells the whole
    command does).
    """
    output = CommandOutput(as_json=as_json)
    if words:
        found = covered(words)
        if found is None:
            raise InputError(f"no table holds `{' '.join(words)}`; `policy coverage` lists the programs that have one")
        if as_json:
            output.row(msgspec.to_builtins(found))
        for line in () if as_json else _lines(found):
            output.line(line)
        return
    programs = list(_programs())
    if as_json:
        output.rows(msgspec.to_builtins(one) for one in programs)
        return
    output.table(
        ("PROGRAM", "SUBCOMMANDS", "OPTIONS", "MADE FROM"),
        [(one.program, one.commands_count, one.options_count, one.version or None) for one in programs],
    )
    commands, options = (sum(getattr(one, name) for one in programs) for name in ("commands_count", "options_count"))
    output.line(f"{len(programs)} programs, {commands} sub-commands, {options} options")


def _programs() -> Iterator[Covered]:
    """Yield each program once, by its canonical name."""
    found = {one.program: one for name in known_programs() if (one := covered([name])) is not None}
    yield from (found[name] for name in sorted(found))


def _lines(found: Covered) -> Iterator[str]:
    yield found.program + (f" ({found.version})" if found.version else "")
    if found.whole:
        yield "only a rule without `*` that equals the whole command allows it"
    if found.spelled:
        yield "only a rule that names it allows it"
    if found.operands is not None:
        yield f"operands: {found.operands or 'none'}"
    for effect, names in found.options.items():
        meaning = _MEANINGS.get(effect, "only a rule that spells them")
        yield f"options, {effect} ({meaning}): {' '.join(names)}"
    if found.commands:
        yield f"sub-commands: {' '.join(found.commands)}"
