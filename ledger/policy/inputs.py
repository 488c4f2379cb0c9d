"""The texts of a tool's input that may name files: in any member, at any depth. Pure; for deny and ask rules only."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any, Final

from ledger.core.late_patterns import late_pattern

TEXTS_COUNT_MAX: Final = 2_000
PATH_CHARS_MAX: Final = 4_096
COMMANDS: Final = frozenset(("command", "cmd", "script", "argv", "commands"))
WRITTEN: Final = frozenset(
    ("content", "contents", "new_string", "old_string", "newstring", "oldstring", "text", "prompt", "description",
     "query", "message", "todos", "patch", "diff", "new_str", "old_str", "file_text", "insert_text", "new_source")
)  # fmt: skip
"""Members that hold text to be written or read, whose words are no paths."""

_JOINED_COUNT: Final = 8
"""Texts of an input, at most, each of which may also be the folder of another one."""

_NAMES_A_FILE = late_pattern(r"path|file|uri\Z")
_IS_NO_FILE = late_pattern(r"\s|\A(?!file:)[\w+.-]+://")
"""A sentence or an address, in a member whose name does not say that it holds a path."""

_PATCHED: Final = late_pattern(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?|--- (?:a/)?)(\S.*)$", re.MULTILINE
)


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the texts and lists of an input with their lower-case member names; also names that look like paths."""
    todo: list[tuple[str, Any]] = [("", value)]
    count = 0
    while todo and count < TEXTS_COUNT_MAX:
        name, one = todo.pop()
        if isinstance(one, Mapping):
            todo += [(str(key).lower(), member) for key, member in one.items()]
            todo += [("", key) for key in one if isinstance(key, str) and ("." in key or "/" in key)]
            continue
        if isinstance(one, list | tuple):
            todo += [(name, member) for member in one if isinstance(member, Mapping | list | tuple)]
            yield name, list(one)
        elif isinstance(one, str):
            yield name, one
        count += 1


def command_of(value: Any) -> str | None:
    """Return the command line of a shell's input; None if it has none."""
    command = value.get("command") if isinstance(value, Mapping) else None
    return command if isinstance(command, str) else None


def texts_in(value: str | list[Any]) -> list[str]:
    """Return the texts of a member."""
    return [value] if isinstance(value, str) else [one for one in value if isinstance(one, str)]


def may_be_path(text: str) -> bool:
    return 0 < len(text) <= PATH_CHARS_MAX and "\n" not in text


def patched(text: str) -> Iterator[str]:
    """Yield the paths of the files that a patch changes."""
    yield from (path for found in _PATCHED.findall(text) if may_be_path(path := found.strip()))


def file_members(value: Any) -> tuple[str, ...]:
    """Return the texts of members whose names say that they hold paths, without repeats."""
    found = [(name, one) for name, one in members(value) if name not in WRITTEN and _NAMES_A_FILE.search(name)]
    return tuple(dict.fromkeys(text for _, one in found for text in texts_in(one) if text))


def named_globs(value: Any) -> tuple[str, ...]:
    """Return each text that may be a file, or a glob for files: words of commands too, and one text inside another one."""
    from ledger.policy.shell.files import expanded  # noqa: PLC0415 - what only reads judges nothing

    found: dict[str, None] = {}
    for name, one in members(value):
        texts = texts_in(one)
        if name in COMMANDS:
            found |= dict.fromkeys(_words(one if isinstance(one, str) else shlex.join(texts)))
        elif name not in WRITTEN:
            is_file = _NAMES_A_FILE.search(name) is not None
            named = [text for text in texts if may_be_path(text) and (is_file or not _IS_NO_FILE.search(text))]
            found |= dict.fromkeys(glob for text in named for glob in expanded(text.removeprefix("file://")))
            found |= dict.fromkeys(path for text in texts for path in patched(text))
    if len(found) <= _JOINED_COUNT:
        found |= dict.fromkeys([posixpath.join(*both) for both in permutations(found, 2)])
    return tuple(found)


def _words(line: str) -> Iterator[str]:
    from ledger.policy.shell.analyse import analyse  # noqa: PLC0415
    from ledger.policy.shell.files import LineOfFiles, named_files  # noqa: PLC0415
    from ledger.policy.shell.forms.reduction import form_of  # noqa: PLC0415

    for command in analyse(line).commands:
        yield from (one.path for one in named_files(command, form_of(command), LineOfFiles()))


def picked(glob: str, *, is_deep: bool) -> tuple[str, ...]:
    """Return the globs of a search without braces and commas; an exclusion picks nothing.

    `is_deep`: several stand in one text, and one without a slash picks files at any depth.
    """
    from ledger.policy.shell.files import alternatives, expanded  # noqa: PLC0415

    texts = [one for text in glob.split() for one in alternatives(text)] if is_deep else [glob]
    found = [one for text in texts if not text.startswith("!") for one in expanded(text)]
    return tuple(dict.fromkeys([*found, *(f"**/{one}" for one in found if is_deep and "/" not in one)]))
