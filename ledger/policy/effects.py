"""The effect of a call: how far it can be taken back. A fact for people, by which a demand may ask for more; never a yes.

Made from the call alone. A tool of another program (MCP) counts as the worst whatever its name says, because the name is
its server's own claim; so does every tool and member that is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledger.core.policy import Call, CallEffect, ConsultedFacts
from ledger.policy.operands import SHELL_TOOLS, folder_of, lines_of
from ledger.policy.shell.effects import READS, TOOLS, WORST, CallPlace, highest, line_effect, place_of
from ledger.policy.shell.facts import files_of_patch

_SHELL_MEMBERS: Final = frozenset({
    "command", "cmd", "description", "timeout", "timeout_ms", "run_in_background", "workdir", "cwd", "directory", "dir_path",
    "justification", "yield_time_ms", "max_output_tokens",
})  # fmt: skip
"""Members of a shell tool's input besides which another one may change what runs, as `env`."""
_PATHS: Final = ("file_path", "filePath", "filepath", "notebook_path", "path", "abs_path")
_PATCHES: Final = ("patchText", "patch_text", "patch", "diff", "input")
_DELETES: Final = "*** Delete File: "


def effect_of(call: Call, facts: ConsultedFacts | None = None) -> CallEffect:
    """Return the effect of a call; `facts` are those of its evaluation, with the links behind the names of files."""
    place = place_of(call.cwd, folder_of(call))
    effect = _of_tool((call.tool_name or call.permission).casefold(), call, place)
    if effect != "changes_here" or facts is None:
        return effect
    links = {one.path: one.found for one in facts.files if one.asked == "target" and one.found}
    root = links.pop(place.folder, place.folder)
    inside = CallPlace(root, frozenset({root}))
    return highest([effect, *(inside.of_change(link) for link in links.values())])


def _of_tool(tool: str, call: Call, place: CallPlace) -> CallEffect:
    given: Mapping[str, Any] | None = call.input if isinstance(call.input, Mapping) else None
    if tool in TOOLS.reads:
        return READS
    if tool in SHELL_TOOLS:
        lines = list(lines_of(call))
        is_plain = bool(lines) and (given is None or given.keys() <= _SHELL_MEMBERS)
        return highest([line_effect(line, place) for line in lines]) if is_plain else WORST
    if tool in TOOLS.edits | TOOLS.writes:
        beyond: CallEffect = "changes_elsewhere" if tool in TOOLS.edits else WORST
        files = [given[name] for name in _PATHS if name in given] if given is not None else call.patterns
        return highest([_of_file(file, place, beyond) for file in files]) if files else WORST
    if tool in TOOLS.patches and given is not None:
        files = list(_patched(given))
        return highest([_of_file(file, place, WORST) for file in files]) if files else WORST
    return WORST


def _of_file(path: object, place: CallPlace, beyond: CallEffect) -> CallEffect:
    return place.of_change(path, beyond) if isinstance(path, str) else WORST


def _patched(given: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the files of a patch; None for a file that it deletes, and for what may be no patch."""
    for name in _PATCHES:
        text = given.get(name)
        if text is not None:
            yield from files_of_patch(text) if isinstance(text, str) and _DELETES not in text else (None,)
