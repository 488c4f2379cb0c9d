"""`policy test`: rules tested against a table of expected verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ledger.core.errors import InputError
from ledger.core.limits import POLICY_BYTES
from ledger.core.regular_files import read_regular
from ledger.policy.asked import source_of
from ledger.policy.dialects import dialect_named
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, JsonSyntaxError, parse
from ledger.policy.tables import RowResult, Table, hold, read_table
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput
from workers.cli.policy.explain import compiled_here
from workers.cli.policy.options import Choices, policy_command


@policy_command(
    "test",
    examples=(
        "permission-ledger policy test policy-table.jsonc",
        "permission-ledger policy test policy-table.jsonc --dialect claude --config .claude/settings.json --json",
    ),
)
@click.argument("file")
def table(*, choices: Choices, as_json: bool, file: str) -> int:
    """Hold rules to a table of commands and the verdicts that they must get.

    FILE is JSON or JSONC: {"dialect", "rules", "allow": [...], "ask": [...], "deny": [...]}. An entry is a command
    line, or an object with `command`, `tool` and `input`, or `permission` and `patterns`; `rules` is the rules' file,
    relative to FILE. Options that are typed come before those in FILE. The exit code is 11 when a row does not hold.
    """
    output = CommandOutput(as_json=as_json)
    read = _read_table(file, choices.dialect)
    if choices.typed["dialect"] not in (None, read.dialect):
        raise InputError(f"`{file}` is for `{read.dialect}`, not for `{choices.dialect}`")
    choices = Choices({**choices.typed, "dialect": read.dialect})
    found = hold(compiled_here(source_of(_asked(choices, read, Path(file).parent))), read.rows)
    failed = [one for one in found if not one.held]
    if as_json:
        output.rows(_json(one) for one in found)
    else:
        _tell(output, file, found, failed)
    return Exit.FINDINGS if failed else Exit.DONE


def _asked(choices: Choices, read: Table, folder: Path) -> dict[str, Any]:
    """Return the configuration to test: typed files, else the table's own, else those found here."""
    own = read.rules is not None or read.layers
    typed = choices.named() if choices.has_files or own else choices.found()
    for name in ("cwd", "home"):
        if choices.typed[name] is None and name in read.options:
            typed[name] = read.options[name]
    asked = {**read.options, **typed, "dialect": read.dialect}
    if own and not choices.has_files:
        dialect = dialect_named(read.dialect)
        asked["layers"] = [dialect.load(folder / path, name=name) for name, path in read.layers]
        if read.rules is not None:
            asked["config"] = dialect.load(folder / read.rules)
    return asked


def _read_table(file: str, dialect: str) -> Table:
    document = _document(file)
    try:
        return read_table(document, dialect)
    except PolicyError as problem:
        raise PolicyError(f"`{file}` {problem}", file=file, **problem.data) from None


def _document(file: str) -> Document:
    try:
        content = read_regular(file, POLICY_BYTES)
        return parse(content.decode("utf-8-sig"), comments=file.endswith(".jsonc"))
    except JsonSyntaxError as problem:
        raise PolicyError(f"`{file}` line {problem.line}: {problem.text}", file=file, line=problem.line) from None
    except (OSError, ValueError) as error:
        cause = (getattr(error, "strerror", None) or str(error)).lower()
        raise PolicyError(f"`{file}` cannot be read: {cause}", file=file) from error


def _json(held: RowResult) -> dict[str, Any]:
    return {
        "text": held.row.text,
        "line": held.row.line,
        "wanted": held.row.wanted.value,
        "verdict": held.verdict.value,
        "ok": held.held,
        "because": held.because,
    }


def _tell(output: CommandOutput, file: str, found: tuple[RowResult, ...], failed: list[RowResult]) -> None:
    for one in failed:
        place = f"{file}:{one.row.line}" if one.row.line else file
        output.line(f"{place}: `{one.row.text}` must be {one.row.wanted.value}, and is {one.verdict.value}")
        output.line(f"  because {one.because or 'no rule matches'}{f'; {one.row.why}' if one.row.why else ''}")
    output.line(f"{len(found) - len(failed)} of {len(found)} rows hold")
