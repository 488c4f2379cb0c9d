"""`policy test`: rules tested against a table of expected verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ledger.core.errors import InputError
from ledger.core.limits import POLICY_BYTES
from ledger.core.policy import Call, Policy, PolicySource, Verdict
from ledger.core.regular_files import read_regular
from ledger.policy.check_questions import JudgedCall, call_of, option_names, source_of
from ledger.policy.checks import shown
from ledger.policy.dialects import dialect_named, dialect_of
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, JsonKeys, JsonSyntaxError, parse, pointer
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


_VERDICTS: Final = tuple(verdict.value for verdict in Verdict)
_HEAD: Final = ("dialect", "rules", "layers")
_ENTRY: Final = ("command", "tool", "input", "permission", "patterns", "why")


class TableRow(msgspec.Struct, frozen=True):
    """One line of a table: `wanted` is the expected verdict on the call. `line` is 1-based."""

    call: Call
    wanted: Verdict
    text: str
    line: int | None = None
    why: str | None = None


class Table(msgspec.Struct, frozen=True):
    """A table of rows. `rules` and `layers` name files, relative to the table; `options` are those of `check`."""

    dialect: str
    rows: tuple[TableRow, ...]
    rules: str | None = None
    layers: tuple[tuple[str, str], ...] = ()
    options: dict[str, Any] = {}


class RowResult(msgspec.Struct, frozen=True):
    """A row and the actual verdict; `held` if it is the expected one."""

    row: TableRow
    verdict: Verdict
    because: str | None

    @property
    def held(self) -> bool:
        return self.verdict is self.row.wanted


def read_table(document: Document, dialect: str) -> Table:
    """Check a table; `dialect` is the default for a table that names none. Raises PolicyError with the line."""
    value = document.value
    if not isinstance(value, Mapping):
        raise PolicyError("a table is an object with lists `allow`, `ask` and `deny`", line=1)
    for name in value:
        if name not in (*_HEAD, *_VERDICTS, *option_names()):
            raise _problem(document, (name,), f"a table has no member {shown(name)}")
    spoken = _text(document, value.get("dialect", dialect), ("dialect",))
    rules = value.get("rules")
    return Table(
        dialect=spoken,
        rows=tuple(_rows(document, spoken)),
        rules=None if rules is None else _text(document, rules, ("rules",)),
        layers=tuple(_layers(document)),
        options={name: value[name] for name in option_names() if name in value},
    )


def _layers(document: Document) -> Iterator[tuple[str, str]]:
    layers = document.value.get("layers", {})
    if not isinstance(layers, Mapping):
        raise _problem(document, ("layers",), "`layers` is an object from the name of a layer to its file")
    for name, file in layers.items():
        yield name, _text(document, file, ("layers", name))


def _rows(document: Document, dialect: str) -> Iterator[TableRow]:
    for verdict in _VERDICTS:
        entries = document.value.get(verdict, [])
        if not isinstance(entries, list):
            raise _problem(document, (verdict,), f"`{verdict}` is a list of commands or calls")
        for index, entry in enumerate(entries):
            yield _row(document, dialect, entry, verdict, (verdict, index))


def _row(document: Document, dialect: str, entry: Any, verdict: str, keys: JsonKeys) -> TableRow:
    members = {"command": entry} if isinstance(entry, str) else entry
    if not isinstance(members, Mapping):
        raise _problem(document, keys, "an entry is a command, or an object with `command`, `tool` or `permission`")
    unknown = next((name for name in members if name not in _ENTRY), None)
    if unknown is not None:
        raise _problem(document, keys, f"an entry has no member {shown(unknown)}")
    why = members.get("why")
    asked = {name: value for name, value in members.items() if name not in ("why", "command")}
    if "command" in members:
        command = _text(document, members["command"], keys)
        asked |= {"tool": dialect_of(PolicySource(dialect)).language.shell, "input": {"command": command}}
    try:
        call = call_of({"dialect": dialect, **asked})
    except PolicyError as problem:
        raise _problem(document, keys, str(problem)) from None
    text = members["command"] if "command" in members else _shown_call(call)
    return TableRow(
        call, Verdict(verdict), text, document.lines.get(pointer(*keys)), why if isinstance(why, str) else None
    )


def _shown_call(call: Call) -> str:
    if call.tool_name is None:
        return f"{call.permission} {' '.join(call.patterns)}"
    values = call.input.values() if isinstance(call.input, Mapping) else ()
    return " ".join([call.tool_name, *map(str, values)])


def _text(document: Document, value: object, keys: JsonKeys) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _problem(document, keys, f"`{keys[0]}` needs a text that is not empty, not {shown(value)}")
    return value


def _problem(document: Document, keys: JsonKeys, text: str) -> PolicyError:
    line = document.lines.get(pointer(*keys))
    return PolicyError(f"line {line}: {text}" if line else text, line=line)


def hold(policy: Policy, rows: tuple[TableRow, ...]) -> tuple[RowResult, ...]:
    """Judge each row."""
    return tuple(_held(row, JudgedCall(policy, row.call)) for row in rows)


def _held(row: TableRow, judged: JudgedCall) -> RowResult:
    texts = "; ".join(f"`{rule.text}`" for rule in judged.rules)
    return RowResult(row, judged.verdict, texts or judged.reason)
