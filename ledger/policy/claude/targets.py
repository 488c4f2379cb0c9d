"""The files that a sub-command names, as Claude Code takes them from its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ledger.policy.claude.sed import is_quiet
from ledger.policy.shell.model import Access, Word

READING: Final = frozenset({
    "awk", "base64", "cat", "cd", "column", "cut", "diff", "file", "find", "grep", "head",
    "hexdump", "jq", "ls", "md5sum", "nl", "od", "paste", "rg", "sha1sum", "sha256sum", "sort", "stat", "strings", "tail",
    "uniq", "wc",
})  # fmt: skip
WRITING: Final = frozenset({"cp", "mkdir", "mv", "rm", "rmdir", "sed", "touch"})
REMOVING: Final = frozenset({"rm", "rmdir"})

_SCRIPTED: Final = {"grep": "ef", "rg": "ef", "sed": "ef", "awk": "f", "jq": "f"}
"""Programs whose first operand is no file, unless one of these options gives the pattern or script."""

_FILE_OPTION: Final = "-f"
_FIND_FILES: Final = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})


class Target(msgspec.Struct, frozen=True):
    """A word that names a file; `word` is None for the program's default place."""

    access: Access
    text: str
    word: Word | None = None


def targets_of(words: Sequence[Word]) -> list[Target]:
    """Return the files that a command names; empty for a program whose words are not checked."""
    name = _text(words[0]) if words else ""
    if name == "git":
        return _no_index(words[1:])
    if name == "cd":
        return _cd(words[1:])
    if name == "sed":
        access = Access.READ if is_quiet([word.raw for word in words]) else Access.EDIT
    elif name in WRITING:
        access = Access.EDIT
    elif name in READING:
        access = Access.READ
    else:
        return []
    chosen = _find(words[1:]) if name == "find" else _operands(name, words[1:])
    if not chosen and name in ("ls", "find"):
        return [Target(access, ".")]
    return [Target(access, _text(word), word) for word in chosen]


def _text(word: Word) -> str:
    return word.resolved if word.resolved is not None else word.raw


def _cd(words: Sequence[Word]) -> list[Target]:
    """Return the target of `cd`: the home without a word, the previous directory for `-`."""
    places = [word for word in words if _text(word) != "-" and not _text(word).startswith("-")]
    if not words:
        return [Target(Access.READ, "~", Word("~", "~", tilde=True))]
    return [Target(Access.READ, _text(word), word) for word in places[:1]]


def _find(words: Sequence[Word]) -> list[Word]:
    """Return the search roots of `find`: the words before the first test, after `-L`, `-H` and `-P`."""
    found, tests = [], False
    for index, word in enumerate(words):
        if word.raw in ("-L", "-H", "-P"):
            continue
        tests = tests or _text(word).startswith(("-", "(", "!"))
        if not tests or (index and words[index - 1].raw in _FIND_FILES):
            found.append(word)
    return found


def _no_index(words: Sequence[Word]) -> list[Target]:
    texts = [_text(word) for word in words]
    if texts[:1] != ["diff"] or "--no-index" not in texts:
        return []
    return [
        Target(Access.READ, text, word)
        for text, word in zip(texts[1:], words[1:], strict=True)
        if not text.startswith("-")
    ]


def _operands(name: str, words: Sequence[Word]) -> list[Word]:
    scripted = _SCRIPTED.get(name)
    operands: list[Word] = []
    ended = given = False
    skip = False
    for index, word in enumerate(words):
        text = _text(word)
        if skip:
            skip = False
        elif ended or not text.startswith("-") or text == "-":
            operands += [word] if text != "-" else []
        elif text == "--":
            ended = True
        elif scripted and len(text) == 2 and text[1] in scripted:
            given = True
            skip = True
            if text == _FILE_OPTION and index + 1 < len(words):
                operands.append(words[index + 1])
    return operands if given or scripted is None else operands[1:]
