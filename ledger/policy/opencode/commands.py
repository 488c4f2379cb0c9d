"""OpenCode's requests for a shell line: the source text of each command, and paths outside the project."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.opencode.arity import prefix
from ledger.policy.opencode.places import OpenCodePlaces, below
from ledger.policy.opencode.requests import OpenCodeRequest
from ledger.policy.reach import leads_out
from ledger.policy.shell import Analysis, ShellCommand, Word, accesses, source_commands
from ledger.policy.shell.forms.files import named_paths
from ledger.policy.shell.names import basename
from ledger.policy.shell.words import loosen

ENTERING: Final = frozenset({"cd", "chdir", "popd", "pushd", "push-location", "set-location"})
"""Commands that only change the directory; they add no pattern."""

FILE_COMMANDS: Final = ENTERING | {
    "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat",
    "get-content", "set-content", "add-content", "copy-item", "move-item", "remove-item", "new-item", "rename-item",
}  # fmt: skip
_WILD: Final = late_pattern(r"[*?\\]")
_GLOB: Final = late_pattern(r"[?*\[]")
_QUOTED_CHARS_MIN: Final = 2
_STREAMS: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})


def shell_request(
    command: str, workdir: str | None, places: OpenCodePlaces, *, tail: str = " *"
) -> OpenCodeRequest | None:
    """Return the request of the shell tool; None for a line that is too long or too complex to parse.

    `tail` is appended to a command's prefix in `always`.
    """
    found = source_commands(command)
    if found is None:
        return None
    base = places.absolute(workdir) if workdir else places.directory
    named = [one for one in found if one.words and one.words[0].raw not in ENTERING]
    folders = list(_outside_folders(found, base, places))
    if (workdir or places.roots) and places.outside(base):
        folders.append(base)
    patterns = tuple(dict.fromkeys(map(below, folders)))
    return OpenCodeRequest(
        "bash",
        tuple(dict.fromkeys(one.statement for one in named)),
        tuple(dict.fromkeys(" ".join(prefix([word.raw for word in one.words])) + tail for one in named)),
        (patterns,) if patterns else (),
        command,
        base,
    )


def offered(analysis: Analysis, request: OpenCodeRequest, tail: str) -> tuple[str, ...]:
    """Return the `always` entries of the hardened profile; a command with a redirection to a file is spelled whole.

    A pattern for its words alone would not cover it: the file would be asked about the next time.
    """
    if not analysis.redirects_only or analysis.flow is not None:
        return request.always
    named = [one for one in analysis.top if one.words and one.words[0].raw not in ENTERING]
    return tuple(dict.fromkeys(entry for one in named for entry in _entries(one, request.patterns, tail)))


def _entries(command: ShellCommand, patterns: Sequence[str], tail: str) -> Iterator[str]:
    is_redirected = any(map(accesses, command.redirects))
    # The grammar assigns a redirection at the end of a pipeline to the whole pipeline: then the words are a pattern too.
    if not is_redirected or command.statement not in patterns:
        yield " ".join(prefix([word.raw for word in command.words])) + tail
    if is_redirected and not _WILD.search(command.statement):
        yield command.statement


def hidden_directories(analysis: Analysis, base: str, places: OpenCodePlaces) -> tuple[str, ...]:
    """Return the directories that the program misses: behind quotes, wrappers, and in commands it does not parse."""
    bare = [_bare(command) for command in analysis.commands if command.words]
    folders = [*_outside_folders(bare, base, places), *_named_outside(analysis.commands, base, places)]
    return tuple(dict.fromkeys(map(below, folders)))


def _named_outside(commands: Iterable[ShellCommand], base: str, places: OpenCodePlaces) -> Iterator[str]:
    for command in commands:
        for path in named_paths(command) if command.words else ():
            if path not in _STREAMS and leads_out(path, base, places.roots, places.facts, places.home):
                full = places.absolute(places.expand(path), base)
                yield full if places.is_directory(full) else posixpath.dirname(full)


def _bare(command: ShellCommand) -> ShellCommand:
    texts = [loosen(word) for word in command.words]
    return ShellCommand(command.text, tuple(Word(text, text) for text in (basename(texts[0]), *texts[1:])))


def _outside_folders(commands: Iterable[ShellCommand], base: str, places: OpenCodePlaces) -> Iterable[str]:
    for command in commands:
        words = [word.raw for word in command.words]
        if not words or words[0] not in FILE_COMMANDS:
            continue
        for written in _paths(words, places):
            path = places.reached(written, base)
            if places.outside(path):
                yield path if places.is_directory(path) else posixpath.dirname(path)


def _paths(words: Sequence[str], places: OpenCodePlaces) -> Iterable[str]:
    for word in words[1:]:
        if word.startswith("-") or (words[0] == "chmod" and word.startswith("+")):
            continue
        text = places.expand(_unquoted(word))
        glob = _GLOB.search(text)
        written = text[: glob.start()] if glob else text
        if written and not written.startswith("(") and "$" not in written and "`" not in written:
            yield written


def _unquoted(word: str) -> str:
    if len(word) >= _QUOTED_CHARS_MIN and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return word
