"""The units of a Bash line: every simple command at any depth, and every redirection to or from a file."""

from __future__ import annotations

import msgspec

from ledger.policy.shell import Access, Analysis, ShellCommand, Wrapper
from ledger.policy.shell.model import accesses
from ledger.policy.shell.words import loosen


class CommandUnit(msgspec.Struct, frozen=True):
    """A command with the commands that it wraps (`sudo rm x` with `rm x`), which deny and ask rules also match."""

    text: str
    command: ShellCommand
    wrapped: tuple[ShellCommand, ...]


class FileUnit(msgspec.Struct, frozen=True):
    """A redirection: its accesses and its file, as far as known."""

    text: str
    accesses: tuple[Access, ...]
    path: str


Unit = CommandUnit | FileUnit


def units_of(analysis: Analysis) -> tuple[Unit, ...]:
    """Return commands in source order, then redirections in source order."""
    groups: list[list[ShellCommand]] = []
    for command in analysis.commands:
        wrapped = command.wrapper in (Wrapper.TRANSPARENT, Wrapper.OPAQUE)
        if wrapped and groups:
            groups[-1].append(command)
        else:
            groups.append([command])
    commands = [
        CommandUnit(_text(first), first, tuple(rest)) for first, *rest in groups if first.words or first.assignments
    ]
    files = [
        FileUnit(f"{redirect.operator} {redirect.target.raw}", touching, loosen(redirect.target))
        for command in analysis.commands
        for redirect in command.redirects
        if (touching := accesses(redirect))
    ]
    return (*commands, *files)


def _text(command: ShellCommand) -> str:
    return " ".join(command.text.split())
