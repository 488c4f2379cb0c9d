"""`policy`: rules judged, without a server. Those that say more of rules are in `policy_checks`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ledger.client.machine import machine_facts
from ledger.core.errors import InputError
from ledger.core.policy import Call, Layer, Policy, PolicySource
from ledger.policy.check_questions import Checker, call_of, source_of, with_facts
from ledger.policy.checks import QUESTION_BYTES
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import DEFAULT_DIALECT, DIALECTS, compile_policy, dialect_named, listed_rules
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.forms.reduction import form_json, form_of, form_text
from ledger.policy.shell.model import Analysis, ShellCommand, Word
from ledger.policy.stored_rules import placed
from workers.cli.base import LedgerCommand, Run, json_option, no_constant
from workers.cli.lazy import LazyGroup
from workers.cli.options import adding
from workers.cli.output import CommandOutput, Exit, talk
from workers.cli.tables import Wide

_TOP: Final = "project"
SHOWN_COUNT: Final = 4
"""The number of places named when no file was found."""

_OPTIONS: Final = (
    click.Option(
        ["--dialect"], type=click.Choice(sorted(DIALECTS)), help="The dialect of the rules (default: the project's)."
    ),
    click.Option(
        ["--profile"], type=click.Choice(["hardened", "faithful"]), help="Safer, or as the source (default: hardened)."
    ),
    click.Option(["--config"], metavar="FILE", help="A file of rules; the layer above all others."),
    click.Option(
        ["--layer", "layer"], multiple=True, metavar="NAME=FILE", help="A layer below it, lowest first; repeatable."
    ),
    click.Option(["--defaults"], is_flag=True, default=None, help="Add the source's built-in rules."),
    click.Option(["--cwd"], metavar="FOLDER", help="The agent's working directory (default: here)."),
    click.Option(["--home"], metavar="FOLDER", help="The home directory of the agent's user."),
    click.Option(["--sandbox-root"], metavar="FOLDER", help="The folder that `cd` may not leave (codelia)."),
    click.Option(["--agent"], metavar="NAME", help="The agent whose section of the rules counts (opencode)."),
    click.Option(["--mode"], metavar="MODE", help="The permission mode (claude)."),
    click.Option(["--edition"], metavar="NAME", help="The edition of the source (opencode, codelia)."),
    click.Option(["--order"], metavar="ORDER", help="insertion or key-length (opencode)."),
    click.Option(["--compat"], metavar="VERSION", help="v2, or v1 where grants lift denies too (opencode)."),
    click.Option(
        ["--supports-confirm/--no-confirm", "supports_confirm"], default=None, help="A person can be asked, or nobody."
    ),
    click.Option(["--fs"], metavar="JSON", help='Facts about files, {"path": "file" | "dir" | "-> target"}.'),
    click.Option(["--grants"], metavar="JSON", help="A list of grants in force, in the dialect's shape."),
)
_PLAIN: Final = ("dialect", "profile", "defaults", "agent", "mode", "edition", "order", "compat", "supports_confirm")
_NAMES: Final = (*_PLAIN, "config", "layer", "cwd", "home", "sandbox_root", "fs", "grants")


class Choices(NamedTuple):
    """The shared options as typed."""

    typed: Mapping[str, Any]

    @property
    def dialect(self) -> str:
        dialect: str | None = self.typed["dialect"]
        return dialect or DEFAULT_DIALECT

    @property
    def spoken(self) -> Dialect:
        return dialect_named(self.dialect)

    @property
    def cwd(self) -> str:
        return str(Path(self.typed["cwd"] or ".").absolute())

    @property
    def home(self) -> str:
        return str(Path(self.typed["home"] or Path.home()).absolute())

    def named(self) -> dict[str, Any]:
        """Return the typed options as members of a line of `check`, files read. Raises PolicyError, InputError."""
        named = {name: self.typed[name] for name in _PLAIN if self.typed[name] is not None}
        # As a session opened there: the explanation then matches the ledger's verdict.
        named |= placed(PolicySource(self.dialect), cwd=self.cwd, home=self.home).options
        if self.typed["sandbox_root"] is not None:
            named["sandbox_root"] = str(Path(self.typed["sandbox_root"]).absolute())
        for name, kind in (("fs", dict), ("grants", list)):
            if self.typed[name] is not None:
                named[name] = json_of(self.typed[name], f"--{name}", kind)
        if self.typed["layer"]:
            named["layers"] = [self._load(*_name_and_file(one)) for one in self.typed["layer"]]
        if self.typed["config"]:
            named["config"] = self._load(_TOP, self.typed["config"])
        return named

    def found(self) -> dict[str, Any]:
        """As `named`; if no file was typed, with those that the source's program would find here."""
        named = {"dialect": self.dialect, **self.named()}
        if not self.has_files:
            named["layers"] = list(self.spoken.find(self.cwd, os.environ, home=self.home))
        return named

    def places(self) -> tuple[str, ...]:
        """Return the files where the source's program looks, existing or not."""
        return tuple(dict.fromkeys(map(str, self.spoken.searched(self.cwd, os.environ, home=self.home))))

    def no_files(self) -> InputError:
        """Return the error of a command that needs a file of rules and finds none."""
        places = self.places()
        looked = ", ".join(f"`{place}`" for place in places[:SHOWN_COUNT])
        more = f" and {len(places) - SHOWN_COUNT} more places" if len(places) > SHOWN_COUNT else ""
        text = f"there is no file of `{self.dialect}` rules here: looked for {looked}{more}"
        return InputError(f"{text}; name one with --config FILE, or the language of your rules with --dialect")

    @property
    def has_files(self) -> bool:
        return bool(self.typed["config"] or self.typed["layer"])

    @property
    def files(self) -> list[str]:
        """Return the typed files, lowest layer first."""
        layers = [_name_and_file(one)[1] for one in self.typed["layer"]]
        return [*layers, *([self.typed["config"]] if self.typed["config"] else [])]

    def _load(self, name: str, file: str) -> Layer:
        return self.spoken.load(file, name=name, strict=self.typed["profile"] != "faithful")

    def policy(self, *, quiet: bool) -> Policy:
        """Return the typed or found rules, compiled. Raises PolicyError."""
        found = self.found()
        if not quiet and not found.get("layers") and not found.get("config"):
            talk(f"hint: no file of `{self.dialect}` rules was found here; name one with --config FILE")
        return with_facts(compile_policy(source_of(found)), machine_facts())

    def of_project(self, *, quiet: bool) -> Choices:
        """Return these options with the dialect of this project, where neither a dialect nor a file was typed.

        It is that of the rules which the project's trusted file names, else of the only rule files that lie in the folder.
        """
        if self.typed["dialect"] is not None or self.has_files:
            return self
        from workers.runtime.project_rules import ProjectRules  # noqa: PLC0415 - only commands about a project need it

        projects = ProjectRules()
        file = projects.file_of(self.cwd)
        named = {} if file is None else projects.paths(file)
        found = named or self._lying_here()
        if len(found) > 1 and DEFAULT_DIALECT not in found:
            raise InputError(
                f"there are rules of several dialects here ({', '.join(sorted(found))}); name one with --dialect"
            )
        dialect = next(iter(found)) if len(found) == 1 else DEFAULT_DIALECT
        if dialect in found and not quiet:
            talk(f"info: these are rules of dialect `{dialect}`, in `{found[dialect]}`")
        return Choices({**self.typed, "dialect": dialect, "config": named.get(dialect)})

    def _lying_here(self) -> dict[str, str]:
        """Return the first file of rules of each dialect in this folder."""
        found: dict[str, str] = {}
        for name in DIALECTS:
            for place in dialect_named(name).searched(self.cwd, os.environ, home=self.home):
                if Path(place).is_relative_to(self.cwd) and os.path.lexists(place):
                    found.setdefault(name, str(place))
        return found


def _name_and_file(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise InputError(f"--layer `{text}` must be NAME=FILE, for example `user=settings.json`")
    return name, file


def json_of(text: str, option: str, kind: type) -> Any:
    """Return an option's JSON value of a kind. Raises InputError."""
    wanted = "a list" if kind is list else "an object"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option} is not JSON: {error}") from None
    if not isinstance(value, kind):
        raise InputError(f"{option} must be {wanted}")
    return value


def policy_command(
    name: str, *examples: str, with_rules: bool = True, of_project: bool = False
) -> Callable[[Run], LedgerCommand]:
    """Make a function a command; with `with_rules` it gets the shared options as `choices`, `of_project` the project's."""

    def decorate(function: Run) -> LedgerCommand:
        def run(*, as_json: bool = False, **typed: Any) -> int | None:
            if not with_rules:
                return function(as_json=as_json, **typed)
            choices = Choices({option: typed.pop(option) for option in _NAMES})
            return function(
                choices=choices.of_project(quiet=as_json) if of_project else choices, as_json=as_json, **typed
            )

        run.__doc__ = function.__doc__
        run.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        made: LedgerCommand = click.command(name, cls=LedgerCommand, examples=examples)(run)
        made.params += [*(_OPTIONS if with_rules else ()), json_option()]
        return made

    return decorate


_Decorated = Callable[..., Any]


call_options: Final = adding(
    click.argument("command", required=False),
    click.option("--tool", metavar="NAME", help="Ask about another tool than the shell."),
    click.option("--input", "tool_input", metavar="JSON", help="The tool's input, an object."),
    click.option("--permission", metavar="NAME", help="Ask about a permission instead."),
    click.option(
        "--pattern", "patterns", multiple=True, metavar="PATTERN", help="A pattern of the permission; repeatable."
    ),
)


def typed_call(dialect: str, *, patterns: tuple[str, ...], **typed: str | None) -> Call:
    """Return the call. Raises UsageError unless exactly one was typed."""
    command, tool, permission = (typed[name] for name in ("command", "tool", "permission"))
    tool_input = typed["tool_input"]
    if sum(one is not None for one in (command, tool, permission)) != 1:
        raise click.UsageError("give COMMAND, or --tool NAME with --input JSON, or --permission NAME with --pattern P")
    if tool_input is not None and tool is None:
        raise click.UsageError("--input needs --tool NAME")
    if patterns and permission is None:
        raise click.UsageError("--pattern needs --permission NAME")
    if command is not None:
        return command_call(dialect, command)
    if permission is not None:
        if not patterns:
            raise click.UsageError("give at least one --pattern PATTERN (`*` is any use of it)")
        return call_of({"dialect": dialect, "permission": permission, "patterns": list(patterns)})
    if tool_input is None:
        raise click.UsageError("--tool needs --input JSON")
    return call_of({"dialect": dialect, "tool": tool, "input": json_of(tool_input, "--input", dict)})


def command_call(dialect: str, command: str) -> Call:
    """Return a call of the dialect's shell tool with a command line. Raises InputError for an empty one."""
    if not command.strip():
        raise InputError("the command is empty")
    return call_of({"dialect": dialect, "tool": dialect_named(dialect).language.shell, "input": {"command": command}})


@policy_command(
    "check",
    "permission-ledger policy check --dialect opencode --config opencode.json",
    "permission-ledger policy check --dialect claude --profile faithful --json",
)
def check(*, choices: Choices, as_json: bool) -> int:
    """Judge calls that come as JSON lines on stdin; each gets one JSON line on stdout, in order.

    A line is {"id", "tool", "input"} or {"id", "permission", "patterns"} and may carry any of dialect, profile,
    config, layers, defaults, cwd, home, sandbox_root, fs, grants, agent, mode, supports_confirm, edition, order and
    compat, which come before the options. A line that cannot be judged gets {"id", "error"}, and the exit code is 12
    in the end.
    """
    output = CommandOutput(as_json=True)
    checker = Checker(choices.named(), machine_facts())
    bad = False
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        answer = _answer(checker, line)
        bad = bad or "error" in answer
        output.row(answer)
    return Exit.BAD_INPUT if bad else Exit.DONE


def _answer(checker: Checker, line: bytes) -> dict[str, Any]:
    if len(line) > QUESTION_BYTES:
        return {"id": None, "error": f"the line is longer than {QUESTION_BYTES} bytes"}
    try:
        question = json.loads(line, parse_constant=no_constant, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        return {"id": None, "error": f"the line is not JSON: {error}"}
    return checker.answer(question)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse equal keys: the second of two would hide the rules of the first."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`{twice}` is given twice; keep one of them")
    return members


@policy_command(
    "rules",
    "permission-ledger policy rules --dialect claude",
    "permission-ledger policy rules --config opencode.json --json",
    of_project=True,
)
def rules(*, choices: Choices, as_json: bool) -> None:
    """Print the rules in force, lowest layer first, each with its layer and the line where it stands.

    Without --config and --layer the files are those that the source's own program finds here.
    """
    output = CommandOutput(as_json=as_json)
    found = listed_rules(choices.policy(quiet=as_json))
    if as_json:
        output.rows(rule.as_json() for rule in found)
    elif found:
        rows = [(one.action.value, one.permission, one.pattern, one.ref.layer, one.place) for one in found]
        output.table(("action", "permission", Wide("pattern"), "layer", "where"), rows)
    else:
        output.line(f"there are no rules: {choices.dialect} asks about {choices.spoken.language.asks_about}")


@policy_command(
    "disabled",
    "permission-ledger policy disabled --tools bash,edit,webfetch --config opencode.json",
    of_project=True,
)
@click.option("--tools", required=True, metavar="A,B", help="Names of tools, with commas between them.")
def disabled(*, choices: Choices, as_json: bool, tools: str) -> None:
    """List those of the tools that the rules deny whatever their input is, in the order given."""
    output = CommandOutput(as_json=as_json)
    names = [name.strip() for name in tools.split(",")]
    if not all(names):
        raise InputError(f"--tools `{tools}` holds an empty name; write them like `bash,edit`")
    gone = choices.policy(quiet=as_json).disabled(names)
    found = [name for name in dict.fromkeys(names) if name in gone]
    output.result({"disabled": found}, *(found or ["none of them is wholly denied"]))


@policy_command(
    "shell",
    """permission-ledger policy shell 'git log | xargs -n1 rm -rf'""",
    """permission-ledger policy shell 'FOO=1 bash -c "make && make install" > log' --json""",
    with_rules=False,
)
@click.argument("command")
def shell(*, as_json: bool, command: str) -> None:
    """Show every command that a line would run, at any depth and behind any wrapper, and whether the line is plain.

    Below them stands the normal form of each command, and what was not understood. With --json it is the member `form`,
    null for a program that is in no table.
    """
    output = CommandOutput(as_json=as_json)
    analysis = analyse(command)
    if as_json:
        commands = [command_json(one) for one in analysis.commands]
        output.row({"commands": commands, "plain": analysis.plain, "reason": analysis.reason})
        return
    output.line("plain" if analysis.plain else f"not plain: {analysis.reason}")
    if analysis.commands:
        rows = [_row(one) for one in analysis.commands]
        output.table((Wide("command"), "assignments", "redirects", "inside"), rows)
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


def command_json(command: ShellCommand) -> dict[str, Any]:
    """Return a command as JSON. `words` are as the command gets them; a word known only at run time is as written."""
    return {
        "text": command.text,
        "words": [_word_text(word) for word in command.words],
        "assignments": [f"{one.name}={_word_text(one.value)}" for one in command.assignments],
        "redirects": [{"operator": one.operator, "target": _word_text(one.target)} for one in command.redirects],
        "in": command.inside,
        "form": form_json(form_of(command)),
    }


def _word_text(word: Word) -> str:
    return word.raw if word.resolved is None else word.resolved


def _row(command: ShellCommand) -> tuple[object, ...]:
    assignments = " ".join(f"{one.name}={one.value.raw}" for one in command.assignments)
    redirects = " ".join(one.text for one in command.redirects)
    return command.text, assignments or None, redirects or None, command.inside


_ASK = "Ask the rules"
_CARE = "Care for the rules"

COMMANDS = {
    "check": ("workers.cli.policy:check", "Judge JSON lines from stdin, one answer a line.", _ASK),
    "explain": ("workers.cli.policy_checks:explain", "Explain why a command would run, ask or be denied.", _ASK),
    "shell": ("workers.cli.policy:shell", "Show what a command line would run.", _ASK),
    "remember": ("workers.cli.policy_checks:remember", "Show what can be remembered for a call.", _ASK),
    "disabled": ("workers.cli.policy:disabled", "List the tools that are wholly denied.", _ASK),
    "rules": ("workers.cli.policy:rules", "Print the rules in force, with their layers.", _CARE),
    "lint": ("workers.cli.policy_checks:lint", "Report problems in rules.", _CARE),
    "test": ("workers.cli.policy_checks:table", "Test rules against a table of expected verdicts.", _CARE),
}

policy = LazyGroup(
    COMMANDS,
    name="policy",
    help="Judge, explain and check rules, without a server.",
)
