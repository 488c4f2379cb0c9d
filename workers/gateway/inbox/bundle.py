"""The modules of the inbox as a few scripts, so that a slow connection needs few round trips. No build step.

Each module becomes a function that is called when another one first imports it, as a browser evaluates modules. It
takes the imports and exports that the inbox's modules use, each on a line of its own, and refuses any other. A call
`import("./later.js")` fetches the script that has this module. Comments and indentation are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

_LINE_COMMENT: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
_BLOCK_COMMENT: Final = re.compile(r"^\s*/\*\*.*?\*/[^\S\n]*\n", re.MULTILINE | re.DOTALL)
_INDENT: Final = re.compile(r"^[^\S\n]+", re.MULTILINE)
_BLANK: Final = re.compile(r"\n{2,}")
_IMPORT: Final = re.compile(r'^import (\{ [\w$]+(?:, [\w$]+)* \}|\* as ([\w$]+)) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?function|class|const) ([\w$]+)", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_LATER: Final = re.compile(r'\bimport\("(\.[^"]+)"\)')

# Not a module, so that the scripts after it see these names.
_HEAD: Final = """"use strict";
const $modules = {}, $made = new Map();
function $use(name) {
if (!$made.has(name)) { $made.set(name, {}); $modules[name]($made.get(name)); }
return $made.get(name);
}
"""


def reached(modules: Mapping[str, str], entry: str, *, without: Collection[str] = ()) -> dict[str, str]:
    """Return the module `entry` and those that it imports, by path. `modules` are the sources. Raises ValueError.

    Modules of `without`, and those that only they import, are left out.
    """
    found: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if path not in modules:
            raise ValueError(f"the inbox has no module `{path}`")
        found[path] = _plain(modules[path])
        imported = (_resolved(path, match[3]) for match in _IMPORT.finditer(found[path]))
        waiting += [one for one in imported if one not in without]
    return found


class Joining(NamedTuple):
    """The scripts around one script.

    `present` are the modules of the scripts that run before it: they are left out. `following` are modules of the script
    that runs right after it: their functions are looked up when they are called. `addresses` has the addresses of
    scripts to fetch later, by module.
    """

    present: Collection[str] = ()
    following: Collection[str] = ()
    addresses: Mapping[str, str] = {}


ALONE: Final = Joining()


def bundled(modules: Mapping[str, str], entry: str, around: Joining = ALONE) -> str:
    """Return one script that does what the module `entry` does. `modules` are the sources by path. Raises ValueError."""
    defined = _defined(modules, reached(modules, entry, without=around.following), around)
    return f"{'' if around.present else _HEAD}{defined}$use({_quoted(entry)});\n"


def following(modules: Mapping[str, str], around: Joining, present: Collection[str]) -> str:
    """Return the script that has the modules `around.following` and those that only they import."""
    found: dict[str, str] = {}
    for entry in sorted(around.following):
        found |= reached(modules, entry)
    return _defined(modules, found, around._replace(present=present, following=()))


def _defined(modules: Mapping[str, str], found: Mapping[str, str], around: Joining) -> str:
    return "".join(
        _as_function(path, text, modules, around) for path, text in found.items() if path not in around.present
    )


def _plain(source: str) -> str:
    """Return a module without its comments, indentation and empty lines."""
    text = _BLOCK_COMMENT.sub("", source)
    return _BLANK.sub("\n", _INDENT.sub("", _LINE_COMMENT.sub("", text)))


def _resolved(path: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def _as_function(path: str, text: str, modules: Mapping[str, str], around: Joining) -> str:
    """Return a module as a function in the table of modules."""
    exported = [match[2] for match in _EXPORT.finditer(text)]

    def use(match: re.Match[str]) -> str:
        name = _resolved(path, match[3])
        if name in around.following:
            return _calls(match[1], name, modules[name])
        return f"const {match[2] or match[1]} = $use({_quoted(name)});"

    def fetch(match: re.Match[str]) -> str:
        name = _resolved(path, match[1])
        if name not in around.addresses:
            raise ValueError(f"no script has the module `{name}`, which `{path}` fetches")
        return f"import({_quoted(around.addresses[name])}).then(() => $use({_quoted(name)}))"

    text = _LATER.sub(fetch, _EXPORT.sub(r"\1 \2", _IMPORT.sub(use, text)))
    left = _LEFT.search(text)
    if left is not None:
        raise ValueError(f"`{path}` has an import or export of another form: `{left[0]}`")
    # Getters, because a module may import from one that is not finished yet: functions exist from the beginning.
    getters = "".join(f"{name}: {{ get: () => {name} }}, " for name in exported)
    return (
        f"$modules[{_quoted(path)}] = ($exports) => {{\nObject.defineProperties($exports, {{ {getters}}});\n{text}}};\n"
    )


def _calls(imported: str, name: str, source: str) -> str:
    """Return functions that look up those of a module when they are called. Raises ValueError for what is no function."""
    functions = {match[2] for match in _EXPORT.finditer(source) if match[1].endswith("function")}
    named = re.findall(r"[\w$]+", imported)
    if imported.startswith("*") or not functions.issuperset(named):
        raise ValueError(f"`{name}` arrives later, so only its functions can be imported, not `{imported}`")
    return " ".join(f"const {one} = (...$all) => $use({_quoted(name)}).{one}(...$all);" for one in named)


def _quoted(path: str) -> str:
    return f'"{path}"'
