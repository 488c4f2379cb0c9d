"""Options of the dialect `codelia`, and its built-in allow rules (codelia.md 7.1 and 7.2): a layer below all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from ledger.core.policy import Layer
from ledger.policy.facts import FileFacts
from ledger.policy.options import PROFILES, GivenOptions
from ledger.policy.unknown import UNKNOWN_FOLDER

CodeliaEdition = Literal["codelia.md", "current"]

_SPEC_TOOLS: Final = ["read", "grep", "glob_search", "todo_read", "todo_write", "tool_output_cache", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "done"]  # fmt: skip
# `shell_stdin_write` is on the program's list and left out here: it types commands into a running shell unseen.
_CURRENT_TOOLS: Final = ["read", "read_line", "view_image", "todo_read", "todo_new", "todo_append", "todo_patch", "todo_clear", "tool_output_cache", "tool_output_cache_line", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "shell_list", "shell_status", "shell_logs", "shell_wait", "shell_result", "shell_cancel", "lane_list", "lane_status", "done"]  # fmt: skip
_COMMANDS: Final = ("pwd", "ls", "rg", "grep", "find", "sort", "cat", "head", "tail", "wc", "stat", "file", "uname", "whoami", "date", "git status", "git diff", "git show", "git log", "git rev-parse", "git ls-files", "git grep")  # fmt: skip
_TOOLS: Final[dict[CodeliaEdition, list[str]]] = {"codelia.md": _SPEC_TOOLS, "current": _CURRENT_TOOLS}


def system_layer(edition: CodeliaEdition = "codelia.md") -> Layer:
    """Return the built-in layer: of the specification, or of the current program without its one dangerous entry."""
    allow = [{"tool": tool} for tool in _TOOLS[edition]]
    allow += [{"tool": "bash", "command": command} for command in _COMMANDS]
    return Layer("system", config={"version": 1, "permissions": {"allow": allow}})


OPTIONS: Final = ("profile", "cwd", "home", "fs", "sandbox_root", "supports_confirm", "defaults", "edition")
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
    given = GivenOptions("codelia", options, OPTIONS)
    root = given.folder("sandbox_root") and options["sandbox_root"]
    profile, cwd = given.choice("profile", PROFILES), given.folder("cwd") or given.folder("sandbox_root")
    given.folder("home")
    return CodeliaOptions(
        hardened=profile == "hardened",
        cwd=cwd or UNKNOWN_FOLDER,
        facts=given.facts(cwd or "/", facts),
        sandbox_root=root,
        supports_confirm=given.flag("supports_confirm", default=True),
        defaults=given.flag("defaults"),
        edition=given.choice("edition", _EDITIONS),
    )
