"""Every `permission-ledger …` of README and docs is accepted by the command line's own parser; no flag is unknown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tests.support.command_line import ROOT
from tests.support.rows import every
from workers.cli import cli

PROGRAM: Final = "permission-ledger"
PAGES: Final = {
    str(page.relative_to(ROOT)): page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
BLOCK: Final = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE: Final = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")

NOT_TYPED: Final = (
    "permission-ledger is not installed here",
    "permission-ledger is up",
    "permission-ledger COMMAND",
    "permission-ledger policy …",
)
"""Texts that begin like a command but are none: the program's own output, and the form of all commands."""


def lines_of_blocks(text: str) -> list[str]:
    """Return the command lines of a page, continued lines joined; usage lines, written by the parser, are left out."""
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    return [line for line in lines if "[OPTIONS]" not in line and not line.startswith(NOT_TYPED)]


def commands(line: str) -> Iterator[list[str]]:
    """Return the words after each `permission-ledger` that starts a shell command; a variable may precede it."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="();|&<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word[0] not in ";|&<>()":
            words.append(word)
            continue
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words.pop(0)
        if words[:1] == [PROGRAM]:
            yield words[1:]
        words = []


def typed(page: Path) -> list[list[str]]:
    lines = [line for line in lines_of_blocks(page.read_text()) if PROGRAM in line]
    return [words for line in lines for words in commands(line)]


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words begin with, through its groups, and the rest. Raises click.UsageError."""
    command: click.Command = cli
    context = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    while isinstance(command, click.Group) and words:
        name, inner, words = command.resolve_command(context, words)
        assert inner is not None
        command, context = inner, click.Context(inner, info_name=name, parent=context)
    return command, words


def refusal(words: list[str]) -> str | None:
    """Return the command line's error for these words, or None; nothing is run."""
    try:
        command, rest = resolved(words)
        command.make_context(words[0], list(rest))
    except click.UsageError as error:
        return error.format_message()
    except click.exceptions.Exit:
        pass
    return None


def options_named(page: Path) -> Iterator[tuple[str, str, click.Command]]:
    """Return each option given to a command of ours, in `permission-ledger ask --rules FILE` or `serve --rules`."""
    for found in INLINE.findall(BLOCK.sub("", page.read_text())):
        words = found.removeprefix(f"{PROGRAM} ").split()
        if not words or cli.get_command(click.Context(cli, **cli.context_settings), words[0]) is None:
            continue
        ours = words[: words.index("--")] if "--" in words else words
        try:
            command, rest = resolved(ours)
        except click.UsageError:
            # A word of prose, `token …` or `worker` with a name left out.
            command, rest = cli.get_command(click.Context(cli, **cli.context_settings), words[0]) or cli, ours[1:]
        yield from ((found, word.partition("=")[0], command) for word in rest if re.fullmatch(r"--[a-z][a-z=-]*", word))


@every("name", PAGES)
def test_every_command_of_a_page_is_taken_by_the_parser(name: str) -> None:
    refused = {" ".join(words): said for words in typed(PAGES[name]) if (said := refusal(words)) is not None}
    assert refused == {}


@every("name", PAGES)
def test_every_option_that_a_page_gives_a_command_is_one_of_that_command(name: str) -> None:
    unknown = [
        f"{found}: no {option}"
        for found, option, command in options_named(PAGES[name])
        if option not in {known for param in command.params for known in (*param.opts, *param.secondary_opts)}
    ]
    assert unknown == []


def test_a_command_of_a_page_with_a_wrong_word_would_be_found() -> None:
    (right,) = commands("echo x | A=1 permission-ledger pending --json > file && true")
    assert right == ["pending", "--json"]
    assert refusal(right) is None
    assert [refusal(words) is None for words in (["pending", "--nosuch"], ["hook", "emacs"], ["policy", "test"])] == [
        False
    ] * 3


def test_the_words_that_codelia_is_told_to_start_its_runtime_with_are_taken_too() -> None:
    page = PAGES["docs/guides/agents/codelia.md"].read_text()
    started = dict(re.findall(r"^export (CODELIA_RUNTIME_\w+)=\"?(.*?)\"?$", page, re.MULTILINE))
    assert started["CODELIA_RUNTIME_CMD"] == PROGRAM
    assert refusal(started["CODELIA_RUNTIME_ARGS"].split()) is None
