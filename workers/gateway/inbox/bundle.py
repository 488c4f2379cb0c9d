"""The modules of the inbox as one script, so that a slow connection fetches it in one round trip. No build step.

Each module becomes a function that is called when another one first imports it, as a browser evaluates modules. It
takes the imports and exports that the inbox's modules use, each on a line of its own, and refuses any other. Comments and
indentation are left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

_LINE_COMMENT: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
_BLOCK_COMMENT: Final = re.compile(r"^\s*/\*\*.*?\*/[^\S\n]*\n", re.MULTILINE | re.DOTALL)
_INDENT: Final = re.compile(r"^[^\S\n]+", re.MULTILINE)
_BLANK: Final = re.compile(r"\n{2,}")
_IMPORT: Final = re.compile(r'^import (\{ [\w$]+(?:, [\w$]+)* \}|\* as ([\w$]+)) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?function|class|const) ([\w$]+)", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)

_HEAD: Final = """const $modules = {}, $made = new Map();
function $use(name) {
if (!$made.has(name)) { $made.set(name, {}); $modules[name]($made.get(name)); }
return $made.get(name);
}
"""


def bundled(modules: Mapping[str, str], entry: str) -> str:
    """Return one script that does what the module `entry` does. `modules` are the sources by path. Raises ValueError."""
    found: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if path not in modules:
            raise ValueError(f"the inbox has no module `{path}`")
        found[path], imported = _as_function(path, modules[path])
        waiting += imported
    return f"{_HEAD}{''.join(found.values())}$use({_quoted(entry)});\n"


def _as_function(path: str, source: str) -> tuple[str, list[str]]:
    """Return a module as a function in the table of modules, and the paths of what it imports."""
    text = _BLOCK_COMMENT.sub("", source)
    text = _BLANK.sub("\n", _INDENT.sub("", _LINE_COMMENT.sub("", text)))
    exported = [match[2] for match in _EXPORT.finditer(text)]
    imported: list[str] = []

    def use(match: re.Match[str]) -> str:
        name = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[3]))
        imported.append(name)
        return f"const {match[2] or match[1]} = $use({_quoted(name)});"

    text = _EXPORT.sub(r"\1 \2", _IMPORT.sub(use, text))
    left = _LEFT.search(text)
    if left is not None:
        raise ValueError(f"`{path}` has an import or export of another form: `{left[0]}`")
    # Getters, because a module may import from one that is not finished yet: functions exist from the beginning.
    getters = "".join(f"{name}: {{ get: () => {name} }}, " for name in exported)
    return (
        f"$modules[{_quoted(path)}] = ($exports) => {{\nObject.defineProperties($exports, {{ {getters}}});\n{text}}};\n",
        imported,
    )


def _quoted(path: str) -> str:
    return f'"{path}"'
