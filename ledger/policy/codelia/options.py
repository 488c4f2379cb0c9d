"""Options of the dialect `codelia`, and its built-in allow rules (codelia.md 7.1 and 7.2): a layer below all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from ledger.core.policy import Layer
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts
from ledger.policy.toolrules.policy import read_options

CodeliaEdition = Literal["codelia.md", "current"]

_SPEC_TOOLS: Final = ["read", "grep", "glob_search", "todo_read", "todo_write", "tool_output_cache", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "done"]  # fmt: skip
# `shell_stdin_write` is on the program's list and left out here: it types commands into a running shell unseen.
_CURRENT_TOOLS: Final = ["read", "read_line", "view_image", "todo_read", "todo_new", "todo_append", "todo_patch", "todo_clear", "tool_output_cache", "tool_output_cache_line", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "shell_list", "shell_status", "shell_logs", "shell_wait", "shell_result", "shell_cancel", "lane_list", "lane_status", "done"]  # fmt: skip
_COMMANDS: Final = (
    *(
        "pwd",
        "ls",
        "rg",
        "grep",
        "find",
        "sort",
        "cat",
        "head",
        "tail",
        "wc",
        "stat",
        "file",
        "uname",
        "whoami",
        "date",
    ),
    *("git status", "git diff", "git show", "git log", "git rev-parse", "git ls-files", "git grep"),
)
_TOOLS: Final[dict[CodeliaEdition, list[str]]] = {"codelia.md": _SPEC_TOOLS, "current": _CURRENT_TOOLS}


def system_layer(edition: CodeliaEdition = "codelia.md") -> Layer:
    """Return the built-in layer: of the specification, or of the current program without its one dangerous entry."""
    allow = [{"tool": tool} for tool in _TOOLS[edition]]
    allow += [{"tool": "bash", "command": command} for command in _COMMANDS]
    return Layer("system", config={"version": 1, "permissions": {"allow": allow}})


_OWN: Final = ("sandbox_root", "supports_confirm", "defaults", "edition")
_SHARED: Final = ("profile", "cwd", "home", "fs")
OPTIONS: Final = (*_SHARED, *_OWN)
_EDITIONS: Final[tuple[CodeliaEdition, ...]] = ("codelia.md", "current")


class CodeliaOptions(msgspec.Struct, frozen=True):
    """Checked options.

    `cwd` is a command's start directory, `sandbox_root` the folder it must not leave; both absolute.
    """

    hardened: bool
    cwd: str
    facts: FileFacts
    sandbox_root: str | None = None
    supports_confirm: bool = True
    defaults: bool = False
    edition: CodeliaEdition = "codelia.md"


def read_codelia_options(options: Mapping[str, Any], facts: FileFacts | None) -> CodeliaOptions:
    """Check the options of a source. Raises PolicyError."""
    root = _root(options.get("sandbox_root"))
    shared = {name: value for name, value in options.items() if name not in _OWN}
    if shared.get("cwd") is None and root is not None:
        shared["cwd"] = root
    common = read_options("codelia", shared, facts, OPTIONS)
    return CodeliaOptions(
        hardened=common.hardened,
        cwd=common.cwd,
        facts=common.facts,
        sandbox_root=root,
        supports_confirm=_flag(options, "supports_confirm", default=True),
        defaults=_flag(options, "defaults", default=False),
        edition=_edition(options.get("edition")),
    )


def _root(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/"):
        raise PolicyError(f"the option `sandbox_root` must be an absolute path, not {shown(value)}", key="sandbox_root")
    return value


def _flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = options.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise PolicyError(f"the option `{name}` must be true or false, not {shown(value)}", key=name)
    return value


def _edition(value: object) -> CodeliaEdition:
    if value is None:
        return _EDITIONS[0]
    for edition in _EDITIONS:
        if edition == value:
            return edition
    wanted = " or ".join(f"`{edition}`" for edition in _EDITIONS)
    raise PolicyError(f"the option `edition` must be {wanted}, not {shown(value)}", key="edition")
