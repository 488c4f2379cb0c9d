"""The program tables; each file is parsed on the first request for one of its programs."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from ledger.policy.shell.forms.nodes import ProgramNode
from ledger.policy.shell.forms.notation import read_tables
from ledger.policy.shell.names import lookups

_FOLDER = files("ledger.policy.shell") / "programs"
_HEADER = re.compile(
    r"""^\[(?:"(?P<quoted>[^"]+)"|(?P<bare>[A-Za-z0-9_+-]+))\][ \t]*(?:\#.*)?$
    (?P<body>(?:\n(?!\[).*)*)""",
    re.MULTILINE | re.VERBOSE,
)
_ALIASES = re.compile(r"^aliases\s*=\s*\[([^\]]*)\]", re.MULTILINE)
_STRING = re.compile(r'"([^"]*)"')


@cache
def _texts() -> dict[str, str]:
    """Return the contents of all files, which are of one version then."""
    found = sorted(_FOLDER.iterdir(), key=lambda one: one.name)
    return {file.name: file.read_text(encoding="utf-8") for file in found if file.name.endswith(".toml")}


@cache
def _places() -> dict[str, str]:
    """Return the file of each program name, without parsing whole tables."""
    found: dict[str, str] = {}
    for file, text in _texts().items():
        for header in _HEADER.finditer(text):
            aliases = _ALIASES.search(header["body"])
            names = [header["quoted"] or header["bare"], *(_STRING.findall(aliases[1]) if aliases else ())]
            found.update(dict.fromkeys(names, file))
    return found


@cache
def _tables(file: str) -> dict[str, ProgramNode]:
    return {name: node for node, aliases in read_tables(_texts()[file]) for name in (node.name, *aliases)}


def known_programs() -> tuple[str, ...]:
    """Return every name of a program that has a table, sorted."""
    return tuple(sorted(_places()))


def program_table(program: str) -> ProgramNode | None:
    """Return the table of a program by its name in a command, with or without a path; None without one."""
    places = _places()
    for name in lookups(program):
        if name in places:
            return _tables(places[name])[name]
    return None
