"""Dangers of a command line or a path, as facts for people.

Verdicts do not depend on them: rules decide, facts explain. Deliberately broad: a false positive costs a glance, a
false negative may cost more. A line that cannot be parsed completely has the danger `unread`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, zip_longest
from typing import Final, Literal

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.model import ShellCommand, accesses
from ledger.policy.shell.names import lookups
from ledger.policy.shell.parse import is_grammatical
from ledger.policy.shell.tables import DOWNLOADERS, INTERPRETERS, OWN_FILES, PROGRAM_FOLDERS, SECRET, SHELLS, effects
from ledger.policy.shell.words import join_lines, shorten, too_long

DANGERS_COUNT: Final = 32
"""Maximum dangers of one text; the last one counts the rest."""

WORDS_COUNT: Final = 2_000
"""Maximum distinct words of a line, and files of a patch, that are examined; beyond that the text is `unread`."""

PLACES_COUNT: Final = 16
"""Maximum paths in one word (`a=/x,/y`) that are examined."""

KNOWN_COUNT: Final = 64
"""Lines whose dangers are cached, because a page is rendered repeatedly."""

DangerKind = Literal["runs-downloaded", "privileges", "deletes", "secrets", "outside", "network", "unread", "more"]

ORDER: Final[tuple[DangerKind, ...]] = (
    "runs-downloaded", "privileges", "deletes", "secrets", "outside", "unread", "network", "more",
)  # fmt: skip
"""Kinds of danger by gravity, the gravest first."""

# Matches begin only at the first character of a run; otherwise a long word would be scanned again from each
# character.
_URL: Final = late_pattern(r"(?<![a-zA-Z0-9+.-])[0-9+.-]*+[a-zA-Z][a-zA-Z0-9+.-]*+://|/dev/(?:tcp|udp)/")
_FILE_URL: Final = late_pattern(r"\Afile://[^/]*", re.IGNORECASE)
_PATH_AT: Final = late_pattern(r"""(?:\A(?:-[A-Za-z])?|[=@:,])(?=[/~]|\.\.(?:/|\Z)|\$\{?HOME\b)""")
_HOME: Final = late_pattern(r"\A(?:~|\$\{?HOME\b)")
_PATCHED: Final = late_pattern(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:---|\+\+\+) |rename (?:from|to) )([^\t\r\n]+)",
    re.MULTILINE,
)
_EFFECTS: Final[tuple[tuple[DangerKind, str], ...]] = (
    ("privileges", "acts with other rights"),
    ("deletes", "deletes or overwrites what cannot be restored"),
    ("runs-downloaded", "fetches packages or images and runs their code"),
    ("network", "connects to other machines"),
)


class Danger(msgspec.Struct, frozen=True):
    """A danger of part of a text: its kind, the part, and a sentence for people."""

    kind: DangerKind
    part: str
    says: str


@lru_cache(maxsize=KNOWN_COUNT)
def command_dangers(line: str, folder: str | None) -> tuple[Danger, ...]:
    """Return the dangers of a command line that starts in `folder`, the gravest first. Pure and bounded."""
    return gravest_first(_of_line(line, folder))


def path_dangers(path: str, folder: str | None) -> tuple[Danger, ...]:
    """Return the dangers of accessing a file from `folder`."""
    return gravest_first(_of_path(path, folder, path))


def patch_dangers(patch: str, folder: str | None) -> tuple[Danger, ...]:
    """Return the dangers of the files in a patch: unified diffs, and the patch formats of Codex and OpenCode."""
    bare = files_of_patch(patch)
    found = [danger for one in islice(bare, WORDS_COUNT) for danger in _of_path(one, folder, one)]
    if len(bare) > WORDS_COUNT:
        found.append(Danger("unread", "", f"the patch names {len(bare)} files; not all were checked"))
    return gravest_first(found)


def files_of_patch(patch: str) -> list[str]:
    """Return the files that a patch names, each once."""
    named = dict.fromkeys(found[1].strip() for found in _PATCHED.finditer(patch))
    return list(dict.fromkeys(one[2:] if one.startswith(("a/", "b/")) else one for one in named if one != "/dev/null"))


def address_dangers(address: str) -> tuple[Danger, ...]:
    """Return the dangers of fetching an address."""
    return (Danger("network", shorten(address), f"connects to `{shorten(address)}`"),)


def gravest_first(found: Iterable[Danger]) -> tuple[Danger, ...]:
    """Return dangers without repeats, ordered and bounded."""
    distinct = sorted(dict.fromkeys(found), key=lambda one: ORDER.index(one.kind))
    if len(distinct) <= DANGERS_COUNT:
        return tuple(distinct)
    left = len(distinct) - DANGERS_COUNT + 1
    return (*distinct[: DANGERS_COUNT - 1], Danger("more", "", f"{left} more such facts"))


def _of_line(line: str, folder: str | None) -> Iterator[Danger]:
    if too_long(line):
        yield Danger("unread", "", "longer than 64 KiB, not analysed")
        return
    analysis = analyse(line)
    if analysis.cut:
        yield Danger("unread", "", analysis.reason or "too complex to analyse")
    elif not analysis.plain and not analysis.redirects_only and not is_grammatical(join_lines(line)):
        yield Danger("unread", "", analysis.reason or "not fully understood")
    runs_something = {one.text for one in analysis.commands if _in(one, SHELLS | INTERPRETERS)}
    words: set[str] = set()
    for command in {(one.statement, one.text): one for one in analysis.commands}.values():
        part = shorten(command.statement or command.text)
        yield from _of_command(command, part, folder, words)
        if runs_something and _in(command, DOWNLOADERS):
            yield Danger("runs-downloaded", part, f"`{command.name}` downloads, and the line runs an interpreter")


def _of_command(command: ShellCommand, part: str, folder: str | None, seen: set[str]) -> Iterator[Danger]:
    words = [_plain(word.raw, word.resolved) for word in command.words]
    name = command.name
    if command.words and name is None:
        yield Danger("unread", part, f"the name `{shorten(command.words[0].raw)}` is known only when it runs")
    if name is not None:
        yield from _of_program(name, words[1:], part)
        if "/" in name and posixpath.dirname(name) not in PROGRAM_FOLDERS:
            yield from _of_path(name, folder, part)
    values = [_plain(one.value.raw, one.value.resolved) for one in command.assignments]
    for word in dict.fromkeys((*words[1:], *values)):
        seen.add(word)
        if len(seen) > WORDS_COUNT:
            yield Danger("unread", "", f"more than {WORDS_COUNT} different words; not all were checked")
            break
        yield from _of_word(word, folder, part)
    for redirect in command.redirects:
        if accesses(redirect):
            yield from _of_path(_plain(redirect.target.raw, redirect.target.resolved), folder, part)
            yield from _connects(redirect.target.raw, part)


def _plain(raw: str, resolved: str | None) -> str:
    return raw.strip("\"'") if resolved is None else resolved


def _of_program(name: str, words: list[str], part: str) -> Iterator[Danger]:
    given, names = frozenset(words), lookups(name)
    for kind, says in _EFFECTS:
        if effects()[kind].applies(names, words):
            yield Danger(kind, part, f"`{name}` {says}")
    if name in ("printenv", "env", "export", "set", "declare") and not given - {"-0", "-p", "-x"}:
        yield Danger("secrets", part, f"`{name}` prints the environment, with the secrets in it")


def _in(command: ShellCommand, programs: frozenset[str]) -> bool:
    return command.name is not None and not programs.isdisjoint(lookups(command.name))


def _of_word(word: str, folder: str | None, part: str) -> Iterator[Danger]:
    yield from _connects(word, part)
    if _FILE_URL.match(word):
        yield from _of_path(_FILE_URL.sub("", word), folder, part)
    elif _URL.search(word) is None:
        found = list(islice(_PATH_AT.finditer(word), PLACES_COUNT + 1))
        if len(found) > PLACES_COUNT:
            yield Danger("unread", part, "a word names more paths than were checked")
        ends = [one.start() for one in found[1:]]
        paths = [word[one.end() : end] for one, end in zip_longest(found, ends)]
        for path in paths or ([word] if "/" in word or SECRET.search(word) else []):
            yield from _of_path(path, folder, part)


def _connects(word: str, part: str) -> Iterator[Danger]:
    found = _URL.search(word)
    if found is not None and not _FILE_URL.match(word):
        yield Danger("network", part, f"names the address `{shorten(word)}`")


def _of_path(path: str, folder: str | None, part: str) -> Iterator[Danger]:
    found = SECRET.search(path)
    if found is not None:
        yield Danger("secrets", part, f"`{shorten(path)}` is where secrets are kept")
    if not path or path in OWN_FILES:
        return
    if _HOME.match(path):
        yield Danger("outside", part, f"`{shorten(path)}` is in the home folder")
    elif folder is None:
        if path.startswith("/") or ".." in path.split("/"):
            yield Danger("outside", part, f"`{shorten(path)}` may be outside; the request names no folder")
    else:
        full = posixpath.normpath(posixpath.join(folder, path))
        if full != posixpath.normpath(folder) and not full.startswith(posixpath.normpath(folder).rstrip("/") + "/"):
            yield Danger("outside", part, f"`{shorten(path)}` is outside of the folder")
