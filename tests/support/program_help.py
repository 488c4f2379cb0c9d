"""The options that a program's own help names, for records of them and for tests of the program tables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Final

from ledger.policy.shell.forms.nodes import ProgramNode, program_table

_NAMED: Final = (
    "git ls cat head tail wc sort uniq cut tr tac nl od base64 base32 basenc shuf expand unexpand du df stat touch mkdir"
    " rmdir rm cp mv ln chmod chown chgrp tee date basename dirname realpath readlink mktemp seq comm join paste fold fmt"
    " sum cksum md5sum sha1sum sha256sum sha512sum b2sum numfmt nproc uname id who grep rg fdfind sed diff cmp sdiff diff3"
    " tar gzip xz zstd curl tree pgrep pkill free top ss lsblk column ul hexdump iconv man apropos file docker gh kubectl"
)
PROGRAMS: Final = tuple(_NAMED.split())

_HELP: Final = {"curl": ("--help", "all"), "kubectl": ("options",)}
_VERSION: Final = {"docker": ("--version",), "kubectl": ("version", "--client")}
_SECONDS_MAX: Final = 30
_LINE = re.compile(r"^[ \t]{0,12}(-.*)")
_NAME = re.compile(r"(--(?:\[no-\])?[A-Za-z0-9](?:[\w-]|\.(?=\d))*|-[A-Za-z0-9@%?.#])(?![\w-])")
_VALUE = re.compile(r"\[?[= ]?(?:<[^>]*>|\[[^]]*\]|\"?[A-Z][A-Z0-9_,:]*\"?|[a-z]+(?=,? *,? -))?\]?")
_BETWEEN = re.compile(r" *(?:, *|\| *|/ *| or )?(?=-)")


def is_here(program: str) -> bool:
    """Return whether the program is on this machine."""
    return shutil.which(program) is not None


def version_of(program: str) -> str:
    """Return the first line of what a program says about its version."""
    lines = _said(program, *_VERSION.get(program, ("--version",))).strip().splitlines()
    return lines[0].strip() if lines else ""


def options_of(program: str) -> Iterator[tuple[str, ...]]:
    """Yield each option that the help of a program or of a sub-command in its table names, behind the sub-command."""
    table = program_table(program)
    assert table is not None, f"no table for {program}"
    own = options_in(_said(program, *_HELP.get(program, ("--help",))))
    yield from ((name,) for name in sorted(own))
    help_word = "-h" if program == "git" else "--help"
    for path in paths(table):
        found = options_in(_said(program, *path, help_word))
        if found != own:  # a sub-command that is not installed shows the program's own help
            yield from ((*path, name) for name in sorted(found))


def paths(node: ProgramNode) -> Iterator[tuple[str, ...]]:
    """Yield the path of each sub-command that is no other name of one, and that something may be allowed of."""
    for name, inner in node.commands.items():
        if name == inner.name and not inner.same and not inner.always and "*" not in name:
            yield (name,)
            yield from ((name, *rest) for rest in paths(inner))


def options_in(text: str) -> set[str]:
    """Return the names of options at the beginning of lines of a help text."""
    found: set[str] = set()
    for line in text.splitlines():
        match = _LINE.match(line)
        rest = match[1] if match else ""
        while name := _NAME.match(rest):
            found.add(name[1].replace("[no-]", ""))
            rest = rest[name.end() :]
            value = _VALUE.match(rest)
            rest = rest[value.end() :] if value else rest
            between = _BETWEEN.match(rest)
            if between is None or not between[0]:
                break
            rest = rest[between.end() :]
    return found


def _said(program: str, *words: str) -> str:
    environment = {**os.environ, "COLUMNS": "300", "LC_ALL": "C", "PAGER": "cat", "GIT_PAGER": "cat", "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        if program == "git":  # `git bisect start -h` begins a bisection, so it gets a repository of its own
            subprocess.run(["git", "init", "--quiet", folder], check=True, timeout=_SECONDS_MAX)
        run = subprocess.run(
            [program, *words],
            cwd=folder,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS_MAX,
        )
    return run.stdout + run.stderr
