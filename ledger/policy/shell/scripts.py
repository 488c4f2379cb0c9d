"""Forms of `sed` and `awk` programs that only print their input. All other programs may write or run something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ledger.policy.shell.awk import is_harmless_awk

# sed: [ADDRESS[,ADDRESS]][!] COMMAND, joined by `;`. `s` has no `e` and no `w` among its flags.
_SED_REGEX = r"/(?:[^/\\\n]|\\[^\n])*+/I?"
_SED_ADDRESS = rf"(?:[0-9]++(?:~[0-9]++)?|\$|{_SED_REGEX})"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:\+[0-9]++|{_SED_ADDRESS}))?+!?)?+"
_SED_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}[gpIi0-9]*+"
    for mark in ("/", r"\|", "#", ",", "@", ":", "!", "%")
)
_SED_COMMAND = rf"[ \t]*+{_SED_RANGE}[ \t]*+(?:{_SED_SUBSTITUTE}|[pdqDPhHgGxnN=]|q[0-9]++)?+[ \t]*+"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*+")
_SED_FLAGS = re.compile(r"-[nErsuz]++|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix)")

_AWK_SEPARATOR = re.compile(r"-F.+")
_AWK_FILE = re.compile(r"(?!-)[^=]+")  # `name=value` among the files sets a variable


def is_harmless_script(language: str, text: str) -> bool:
    """Return whether a script only prints. `language` is `sed`, `awk`, or empty for an unknown one."""
    if language == "awk":
        return is_harmless_awk(text)
    return language == "sed" and _SED_SCRIPT.fullmatch(text) is not None


def harmless(program: str, words: Sequence[str]) -> bool:
    """Return whether all words after the program's name are understood and only print. `program` is `sed` or `awk`."""
    return _SCRIPTS[program](words)


def _harmless_sed(words: Sequence[str]) -> bool:
    scripts, files, at = [], [], 0
    while at < len(words):
        word = words[at]
        if word in ("-e", "--expression"):
            if at + 1 >= len(words):
                return False
            scripts.append(words[at + 1])
            at += 1
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif word.startswith("-") and word != "-":
            if not _SED_FLAGS.fullmatch(word):
                return False
        else:
            files.append(word)
        at += 1
    if not scripts:
        scripts = files[:1]
    return bool(scripts) and all(_SED_SCRIPT.fullmatch(script) for script in scripts)


def _harmless_awk(words: Sequence[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-F":
            at += 2
        elif _AWK_SEPARATOR.fullmatch(words[at]):
            at += 1
        else:
            return False
    script = words[at] if at < len(words) else None
    if script is None or not is_harmless_awk(script):
        return False
    return all(_AWK_FILE.fullmatch(word) for word in words[at + 1 :])


_SCRIPTS: Final = {"sed": _harmless_sed, "awk": _harmless_awk}
