"""The files that one spelling of a path may mean, for rules that deny and ask. Pure; facts about links are passed in.

`~`, `..` with and without links, `/proc/self/cwd`, escapes of URLs and the two forms of accented letters: each reading
of the path is one absolute path.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from typing import Final
from urllib.parse import unquote

from ledger.core.late_patterns import late_pattern
from ledger.policy.facts import FileFacts
from ledger.policy.unknown import UNKNOWN_HOME

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
