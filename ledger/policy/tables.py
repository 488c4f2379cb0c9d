"""A team's table of calls, each with the verdict that its rules must give. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from ledger.core.policy import Call, Policy, PolicySource, Verdict
from ledger.policy.asked import call_of, option_names
from ledger.policy.check_questions import JudgedCall
from ledger.policy.checks import shown
from ledger.policy.dialects import dialect_of
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, JsonKeys, pointer

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
