"""`policy explain`, `lint`, `test` and `remember`: a verdict's parts, mistakes in rules, expected verdicts, offers of grants."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ledger.client.machine import machine_facts
from ledger.core.errors import InputError
from ledger.core.limits import POLICY_BYTES
from ledger.core.policy import Call, Offer, Part, Policy, PolicySource, Verdict
from ledger.core.regular_files import read_regular
from ledger.policy.check_questions import JudgedCall, call_of, judge, option_names, rule_json, source_of, with_facts
from ledger.policy.checks import shown
from ledger.policy.covers import not_accepted
from ledger.policy.demands import demand_sentences, demands_on
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import compile_policy, dialect_named, dialect_of
from ledger.policy.errors import PolicyError
from ledger.policy.explanation import Explanation, Near, ReadCommand
from ledger.policy.explanation import explain as explained
from ledger.policy.jsonc import Document, JsonKeys, JsonSyntaxError, parse, pointer
from ledger.policy.lint import LintFinding, lint_rules, lint_text
from ledger.policy.offers import narrowed, offers
from ledger.policy.shell.forms.reduction import form_json, form_text
from workers.cli.output import CommandOutput, Exit, talk
from workers.cli.policy import Choices, call_options, policy_command, typed_call
from workers.cli.tables import Wide
from workers.presentation.labels import DEMANDED, REACHES

EXITS: Final = {Verdict.ALLOW: Exit.DONE, Verdict.ASK: Exit.PENDING, Verdict.DENY: Exit.DENIED}

_HEADLINES: Final = {
    Verdict.ALLOW: "allow: it runs without a question",
    Verdict.ASK: "ask: a person must answer first",
    Verdict.DENY: "deny: it may not run",
}


@policy_command(
    "explain",
    "permission-ledger policy explain 'git push --force origin main'",
    "permission-ledger policy explain --dialect claude --config .claude/settings.json 'npm test && rm -rf build'",
    """permission-ledger policy explain --dialect claude --tool Read --input '{"file_path": ".env"}' --json""",
    "permission-ledger policy explain --permission webfetch --pattern https://example.com",
    of_project=True,
)
@call_options
def explain(*, choices: Choices, as_json: bool, **typed: Any) -> int:
    """Say which parts a command or call has, which rule decided and where it stands, and what would change it.

    Without --config and --layer the rules are those that the source's own program finds here. The exit code is the
    verdict: 0 allow, 7 ask, 3 deny.
    """
    output = CommandOutput(as_json=as_json)
    call = typed_call(choices.dialect, **typed)
    policy = choices.policy(quiet=as_json)
    found = explained(policy, call, compiled_here)
    demanded = demanded_of(policy, call, found.judged)
    if as_json:
        output.row(
            {
                **judge(policy, call),
                "commands": [{"text": one.text, "form": form_json(one.form)} for one in found.commands],
                "unknown": [msgspec.to_builtins(one) for one in found.unknown],
                "near": [{**rule_json(one.rule.ref), "matches": one.matches, "why": one.why} for one in found.near],
                "fixes": [msgspec.to_builtins(fix) for fix in found.fixes],
                **({"demanded": list(demanded)} if demanded else {}),
            }
        )
    else:
        _tell_explained(output, found, demanded)
    return EXITS[found.judged.verdict]


def compiled_here(source: PolicySource) -> Policy:
    """Return a policy that reads this machine's files."""
    return with_facts(compile_policy(source), machine_facts())


def demanded_of(policy: Policy, call: Call, judged: JudgedCall) -> tuple[str, ...]:
    """Return the demands on the answers to a call and to those asked before it, a sentence each; none on one that is denied."""
    if judged.verdict is Verdict.DENY:
        return ()
    found = [one for asked in (*(first for first, _ in judged.first), call) for one in demands_on(policy, asked)]
    return demand_sentences(found, "the asker")


def _tell_explained(output: CommandOutput, found: Explanation, demanded: Iterable[str]) -> None:
    judged: JudgedCall = found.judged
    output.line(_HEADLINES[judged.verdict])
    if judged.reason:
        output.line(f"because {judged.reason}")
    if judged.verdict is Verdict.DENY and judged.message:
        output.line(f"the agent is told: {judged.message}")
    for one in demanded:
        output.line(f"{DEMANDED} of an answer: {one}")
    _parts(output, judged)
    _tell_read(output, found.commands)
    for part in found.unknown:
        inside = "" if part.text == part.word else f" in `{part.word}`"
        output.line(f"  not known: `{part.text}`{inside}: {part.why}")
    _nearly(output, found.near)
    for fix in found.fixes:
        output.line()
        output.line(f"{fix.text}{':' if fix.config else ''}")
        if fix.config:
            output.line(f"  {json.dumps(fix.config, ensure_ascii=False)}")
        if fix.config and fix.verdict is Verdict.ALLOW and found.commands:
            from workers.presentation.words import lets_through  # noqa: PLC0415 - slow to import

            output.line(f"  {lets_through(fix.lets_through)}")


def _tell_read(output: CommandOutput, commands: tuple[ReadCommand, ...]) -> None:
    if commands:
        output.line()
        output.line("read as:")
    for one in commands:
        output.line(f"  {form_text(one.form) if one.form is not None else f'`{one.text}`, a program without a table'}")
        for unclear in one.form.unclear if one.form is not None else ():
            output.line(f"    not understood: {unclear.reason}")


def _parts(output: CommandOutput, judged: JudgedCall) -> None:
    rows = [
        (call.permission, part.verdict.value, part.text, *_decided(part))
        for call, evaluation in judged.first
        for part in evaluation.parts
    ]
    rows += [(_where(part), part.verdict.value, part.text, *_decided(part)) for part in judged.own.parts]
    if rows:
        output.line()
        output.table(("part", "verdict", Wide("text"), Wide("rule"), Wide("where")), rows)


def _where(part: Part) -> str:
    inside = getattr(part, "inside", None)
    return f"in `{inside}`" if inside else "itself"


def _decided(part: Part) -> tuple[str | None, str | None]:
    if part.grants:
        return f"grant {', '.join(part.grants)}", None
    return _joined(rule.text for rule in part.rules), _joined(rule.place or "-" for rule in part.rules)


def _joined(texts: Iterable[str]) -> str | None:
    return "; ".join(texts) or None


def _nearly(output: CommandOutput, near: tuple[Near, ...]) -> None:
    if near:
        output.line()
        output.line("rules that nearly decided:")
        for one in near:
            output.line(f"  {one.rule.ref.text} ({one.rule.place}): {one.why}")


@policy_command(
    "lint",
    "permission-ledger policy lint --config opencode.json",
    "permission-ledger policy lint --dialect claude --json",
    of_project=True,
)
def lint(*, choices: Choices, as_json: bool) -> int:
    """Find rules that never decide, are lifted or not honoured, and names and keys that mean nothing.

    Without --config and --layer the files are those that the source's own program finds here; the files that were read
    are named on stderr. The exit code is 11 when anything was found, and 12 when there is no file to read.
    """
    output = CommandOutput(as_json=as_json)
    files = _files(choices)
    found = _findings(choices, files)
    if as_json:
        output.rows(msgspec.to_builtins(one) for one in found)
    for one in () if as_json else found:
        output.line(f"{_place(one)}: {one.severity}: {one.text} [{one.code}]")
        output.line(f"  {one.fix}")
    talk(f"read: {', '.join(files)}")
    if not found and not as_json:
        output.line("nothing is wrong with these rules")
    return Exit.FINDINGS if found else Exit.DONE


def _place(found: LintFinding) -> str:
    return f"{found.file}:{found.line}" if found.file and found.line else found.file or "-"


def _files(choices: Choices) -> list[str]:
    if choices.has_files:
        return choices.files
    found = [place for place in choices.places() if os.path.lexists(place)]
    if not found:
        raise choices.no_files()
    return found


def _findings(choices: Choices, files: list[str]) -> list[LintFinding]:
    found = [one for file in files for one in lint_text(choices.spoken, _read_rules(file), file)]
    if choices.has_files and any(one.severity == "error" for one in found):
        return found
    try:
        policy = choices.policy(quiet=True)
    except PolicyError as problem:
        if isinstance(problem.__cause__, OSError):
            raise
        broken = _broken(choices.spoken, problem)
        return found if broken in found else [*found, broken]
    return found + lint_rules(policy, compiled_here)


def _broken(dialect: Dialect, problem: PolicyError) -> LintFinding:
    file, line = problem.data.get("file"), problem.data.get("line")
    if isinstance(file, str):
        better = [one for one in lint_text(dialect, _read_rules(file), file) if one.severity == "error"]
        if better:
            return better[0]
    return LintFinding(
        file, line, "invalid", "error", str(problem), "correct it; until then nothing starts with this file"
    )


def _read_rules(file: str) -> str:
    return _bytes_of(file).decode("utf-8-sig", "replace")


def _bytes_of(file: str) -> bytes:
    try:
        return read_regular(file, POLICY_BYTES)
    except (OSError, ValueError) as error:
        cause = (getattr(error, "strerror", None) or str(error)).lower()
        raise PolicyError(f"`{file}` cannot be read: {cause}", file=file) from error


@policy_command(
    "test",
    "permission-ledger policy test policy-table.jsonc",
    "permission-ledger policy test policy-table.jsonc --dialect claude --config .claude/settings.json --json",
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
    try:
        content = _bytes_of(file).decode("utf-8-sig")
        return read_table(parse(content, comments=file.endswith(".jsonc")), dialect)
    except JsonSyntaxError as problem:
        raise PolicyError(f"`{file}` line {problem.line}: {problem.text}", file=file, line=problem.line) from None
    except UnicodeDecodeError as error:
        raise PolicyError(f"`{file}` cannot be read: {str(error).lower()}", file=file) from error
    except PolicyError as problem:
        if "file" in problem.data:
            raise
        raise PolicyError(f"`{file}` {problem}", file=file, **problem.data) from None


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
    judged = ((row, JudgedCall(policy, row.call)) for row in rows)
    return tuple(
        RowResult(row, one.verdict, "; ".join(f"`{rule.text}`" for rule in one.rules) or one.reason)
        for row, one in judged
    )


@policy_command(
    "remember",
    "permission-ledger policy remember 'git tag v1.4.0'",
    "permission-ledger policy remember --dialect codelia 'npm run build && ls' --json",
    of_project=True,
)
@call_options
def remember(*, choices: Choices, as_json: bool, **typed: Any) -> None:
    """Show the choices of what to remember of a command or a call, the narrowest first, each tried.

    WIDE marks a choice that lets through much more than this call. With --json each rule is an object as `grants` of
    `policy check` takes it, with `reach` (exact, kind, all), `wide`, `always` (an `always` reply grants it) and, where
    the choice does not cover the call, `still_asked`.
    """
    output = CommandOutput(as_json=as_json)
    call = typed_call(choices.dialect, **typed)
    policy = choices.policy(quiet=as_json)
    evaluation = policy.evaluate(call)
    idle = not_accepted(policy, call, evaluation, evaluation.always)
    stored = narrowed(policy, call, evaluation, tuple(entry for entry in evaluation.always if entry not in idle))
    found = offers(policy, call, evaluation, stored)
    if as_json:
        output.rows(row for one in found for row in _offer_rows(choices.spoken, call.permission, one, stored))
        return
    for entry in idle:
        talk(f"left out: `{entry}` would lift nothing of this call in profile hardened")
    for one in found:
        for line in _offer_lines(one, stored):
            output.line(line)
    if not found:
        output.line(_NOTHING[evaluation.verdict])


_NOTHING: Final = {
    Verdict.ALLOW: "nothing: it is allowed already",
    Verdict.ASK: "nothing: an `always` would count for this one call only",
    Verdict.DENY: "nothing: a rule denies it, and no grant lifts that",
}


def _offer_rows(dialect: Dialect, permission: str, offer: Offer, stored: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for entry in offer.entries:
        grant = dialect.grant_object(permission, entry)
        still = {"still_asked": list(offer.still_asked)} if offer.still_asked else {}
        yield {**grant, "reach": offer.reach, "wide": offer.wide, "always": entry in stored, **still}


def _offer_lines(offer: Offer, stored: tuple[str, ...]) -> Iterator[str]:
    granted = ", granted by `always`" if set(offer.entries) == set(stored) else ""
    name = f": {offer.name}" if offer.name else ""
    yield f"{REACHES[offer.reach]}{name}{granted}{' (WIDE)' if offer.wide else ''}"
    yield from (f"  {entry}" for entry in offer.entries)
    for reason in offer.still_asked:
        yield f"  still asks: {reason}"
