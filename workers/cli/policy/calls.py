"""The call of a `policy` command, as typed: a command line, a tool with its input, or patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ledger.core.errors import InputError
from ledger.core.policy import Call
from ledger.policy.check_questions import call_of
from ledger.policy.dialects import dialect_named
from workers.cli.policy.options import json_of

_Decorated = Callable[..., Any]


def call_options(function: _Decorated) -> _Decorated:
    """Add `COMMAND`, `--tool` with `--input`, and `--permission` with `--pattern`."""
    for decorate in (
        click.option(
            "--pattern", "patterns", multiple=True, metavar="PATTERN", help="A pattern of the permission; repeatable."
        ),
        click.option("--permission", metavar="NAME", help="Ask about a permission instead."),
        click.option("--input", "tool_input", metavar="JSON", help="The tool's input, an object."),
        click.option("--tool", metavar="NAME", help="Ask about another tool than the shell."),
        click.argument("command", required=False),
    ):
        function = decorate(function)
    return function


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
