"""Paths as programs may read them: every file that one spelling may mean, and paths that lead out of the project.

For rules that deny and ask. Pure; facts about links are passed in. `~`, `..` with and without links, `/proc/self/cwd`,
escapes of URLs and the two forms of accented letters: each reading of a path is one absolute path. Paths below an
unknown folder or home are in no project, and no rule that allows covers them.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Evaluation
from ledger.policy.facts import FileFacts

UNKNOWN_FOLDER: Final = "/\0"
"""Placeholder for an unknown working directory; no path of a file holds a NUL."""

UNKNOWN_HOME: Final = "/\0~"
"""Placeholder for an unknown home directory."""


def is_unknown(root: str) -> bool:
    return root in (UNKNOWN_FOLDER, UNKNOWN_HOME)


def possible_roots(root: str, path: str) -> tuple[str, ...]:
    """Return the folders that a root may be, for a rule that restricts: if unknown, also every parent of the path."""
    if not is_unknown(root):
        return (root,)
    held = [root]
    while path != "/" and "\0" not in path:
        path = posixpath.dirname(path)
        held.append(path)
    return tuple(held)


def readable(text: str) -> str:
    """Return the text with `~/x` and `x` for paths below an unknown folder or home."""
    if "\0" not in text:
        return text
    text = text.replace("/" + UNKNOWN_HOME, "~").replace(UNKNOWN_HOME, "~")
    text = text.replace("/" + UNKNOWN_FOLDER + "/", "").replace(UNKNOWN_FOLDER + "/", "")
    return text.replace(UNKNOWN_FOLDER, ".")


def readable_evaluation(found: Evaluation) -> Evaluation:
    """Return the evaluation with `readable` applied to all its texts."""
    return replace(
        found,
        parts=tuple(replace(part, text=readable(part.text)) for part in found.parts),
        message=None if found.message is None else readable(found.message),
        reason=None if found.reason is None else readable(found.reason),
        always=tuple(map(readable, found.always)),
        ask_first=tuple(replace(one, patterns=tuple(map(readable, one.patterns))) for one in found.ask_first),
    )


def leads_out(path: str, directory: str, roots: Sequence[str], facts: FileFacts, home: str | None = None) -> bool:
    """Return whether a path is outside of all roots, as written or after following its links.

    `directory` is the working directory of the command. While no root is known, only a relative path that does not
    climb is inside. A `~` that is not the known home is outside.
    """
    if path == "~" or path.startswith("~/"):
        if home is None:
            return True
        path = home + path[1:]
    elif path.startswith("~"):
        return True
    known = [root for root in roots if root != UNKNOWN_FOLDER]
    if not known or directory.startswith(UNKNOWN_FOLDER):
        return path.startswith("/") or ".." in path.split("/")
    written = posixpath.join(directory, path)
    lexical = "/" + posixpath.normpath(written).lstrip("/")
    if "/proc/" in lexical + "/":
        return True
    real = {facts.resolve(lexical), facts.resolve(written)} if ".." in path.split("/") else {facts.resolve(lexical)}
    resolved = [facts.resolve(root) for root in known]
    return not (_within_one(lexical, known) and all(_within_one(one, resolved) for one in real))


def within(path: str, folder: str) -> bool:
    """Return whether a path is the folder itself or inside it. Both are absolute."""
    return path == folder or path.startswith(folder if folder[-1:] == "/" else folder + "/")


def absolute(path: str, directory: str = "/") -> str:
    """Return an absolute path without `.`, `..` and double slashes, without file access."""
    return "/" + posixpath.normpath(path if path[:1] == "/" else f"{directory}/{path}").lstrip("/")


def _within_one(path: str, roots: Sequence[str]) -> bool:
    return any(within(path, root) for root in roots)


_PROCESS = late_pattern(r"/+proc/+(?:self|thread-self|[0-9]+)(?:/+task/+[0-9]+)?(?:/+(?P<member>[^/]+)(?P<rest>/.*)?)?")
_HOME = late_pattern(r"~(?P<user>[^/]*)(?P<rest>/.*)?", re.DOTALL)
ANY_FILE: Final = "\1"
"""A name that only a pattern for every file matches."""

_FORMS: Final = ("NFC", "NFD")


def is_of_a_process(path: str) -> bool:
    """Return whether a path is below `/proc/PID`: its target depends on the process that opens it."""
    return _PROCESS.fullmatch(posixpath.normpath(path)) is not None


def spelled_paths(path: str, directory: str, home: str | None, facts: FileFacts) -> tuple[str, ...]:
    """Return every absolute path that a spelling may mean from a directory, the plainest reading first."""
    found: dict[str, None] = {}
    for text in _texts(path):
        written = posixpath.join(directory, _at_home(text, directory, home))
        plain = _normal(written)
        found[plain] = None
        found[facts.resolve(plain)] = None
        if ".." in written:
            found[facts.resolve(written)] = None
    for one in tuple(found):
        found.update(dict.fromkeys(_of_process(one, directory)))
    return tuple(found)


def with_inside(path: str) -> tuple[str, str]:
    """Return a path, and a path inside it: a rule that matches every file of a folder also matches the folder."""
    return path, posixpath.join(path, ANY_FILE)


def _texts(path: str) -> tuple[str, ...]:
    if path.isascii() and path.isprintable() and "%" not in path and " " not in path:
        return (path,)
    texts = [path, path.strip(), path.partition("\0")[0], unquote(path)]
    if not path.isascii():
        texts += [unicodedata.normalize(form, path) for form in _FORMS]
        texts.append("".join(one for one in path if unicodedata.category(one) != "Cf"))
    return tuple(dict.fromkeys(text for text in texts if text))


def _at_home(text: str, directory: str, home: str | None) -> str:
    """Expand `~` and `~user` to the home, `~+` to the directory."""
    found = _HOME.fullmatch(text)
    if found is None:
        return text
    start = directory if found["user"] == "+" else UNKNOWN_HOME if home is None else home
    return start + (found["rest"] or "")


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _of_process(path: str, directory: str) -> tuple[str, ...]:
    """Return the targets of `cwd` and `root` of a process, if it is the agent's own."""
    found = _PROCESS.fullmatch(path)
    start = {"cwd": directory, "root": "/"}.get(found["member"] or "") if found else None
    return () if found is None or start is None else (_normal(start + "/" + (found["rest"] or "")),)
