"""OpenCode 1.18 requests for tool calls: a permission, its patterns, and directories outside the project."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ledger.policy.opencode.patch import patched_files
from ledger.policy.opencode.places import OpenCodePlaces, below
from ledger.policy.rules import permission_of

_ANY: Final = ("*",)


class OpenCodeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The permission request of a tool call.

    `directories` are the patterns of `external_directory`, one tuple for each request that is made first, in order.
    `command` is the whole line of a shell call and `base` its working directory. `more` are patterns that the program
    omits and the hardened profile also judges.
    """

    permission: str
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = _ANY
    directories: tuple[tuple[str, ...], ...] = ()
    command: str | None = None
    base: str | None = None
    more: tuple[str, ...] = ()


ToolInput = Mapping[str, Any]


def tool_request(tool: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    """Return the request of any tool except the shell; None if its input lacks the required members.

    Paths are as `OpenCodePlaces.from_worktree` gives them. An unknown tool, for example of an MCP server, asks for `*`.
    """
    permission = permission_of(tool)
    make = _TOOLS.get(tool)
    return make(permission, value, places) if make else OpenCodeRequest(permission, _ANY)


def _file(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    path = _text(value, "filePath")
    if path is None:
        return None
    full = places.absolute(path)
    kept = permission == "read" and places.is_directory(full)
    return OpenCodeRequest(
        permission, (places.from_worktree(full),), directories=_directories(full, places, itself=kept)
    )


def _list(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest:
    full = places.absolute(_text(value, "path") or ".")
    return OpenCodeRequest(
        permission, (places.from_worktree(full),), directories=_directories(full, places, itself=True)
    )


def _search(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    pattern = _text(value, "pattern")
    if pattern is None:
        return None
    full = places.absolute(_text(value, "path") or ".")
    itself = permission == "glob" or places.is_directory(full)
    return OpenCodeRequest(permission, (pattern,), directories=_directories(full, places, itself=itself))


def _patch(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    text = _text(value, "patchText")
    files = patched_files(text) if text is not None else ()
    if not files:
        return None
    asked: dict[tuple[str, ...], None] = {}
    for file in files:
        for path in (file.path, file.moved_to):
            asked.update(dict.fromkeys(_directories(places.absolute(path), places, itself=False) if path else ()))
    patterns = tuple(places.from_worktree(places.absolute(file.path)) for file in files)
    moved = tuple(places.from_worktree(places.absolute(file.moved_to)) for file in files if file.moved_to)
    return OpenCodeRequest(permission, patterns, directories=tuple(asked), more=moved)


def _lsp(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    path = _text(value, "filePath")
    if path is None:
        return None
    return OpenCodeRequest(permission, _ANY, directories=_directories(places.absolute(path), places, itself=False))


def _external(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    path = _text(value, "filepath") or _text(value, "filePath") or _text(value, "path")
    if path is None:
        return None
    full = places.absolute(path)
    found = _directories(full, places, itself=places.is_directory(full))
    patterns = found[0] if found else ()
    return OpenCodeRequest(permission, patterns, patterns)


def _named(*members: str, itself: bool = False) -> Callable[[str, ToolInput, OpenCodePlaces], OpenCodeRequest | None]:
    """Return a maker of requests for one text of the input; with `itself`, `always` covers only that text."""

    def make(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
        text = next((found for member in members if (found := _text(value, member)) is not None), None)
        if text is None:
            return None
        return OpenCodeRequest(permission, (text,), (text,) if itself else _ANY)

    return make


_TOOLS: Final[Mapping[str, Callable[[str, ToolInput, OpenCodePlaces], OpenCodeRequest | None]]] = {
    "read": _file,
    "edit": _file,
    "write": _file,
    "multiedit": _file,
    "patch": _patch,
    "apply_patch": _patch,
    "glob": _search,
    "grep": _search,
    "list": _list,
    "lsp": _lsp,
    "external_directory": _external,
    "webfetch": _named("url"),
    "websearch": _named("query"),
    "codesearch": _named("query"),
    "task": _named("subagent_type"),
    "skill": _named("name", itself=True),
    "doom_loop": _named("tool", itself=True),
}


def _text(value: ToolInput, member: str) -> str | None:
    found = value.get(member)
    return found if isinstance(found, str) and found else None


def _directories(path: str, places: OpenCodePlaces, *, itself: bool) -> tuple[tuple[str, ...], ...]:
    if not places.outside(path):
        return ()
    return ((below(path if itself else posixpath.dirname(path)),),)
