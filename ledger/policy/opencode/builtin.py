"""The built-in rules of OpenCode 1.18: for every agent, for each of its own agents, and for its own output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from ledger.core.policy import Rule, Verdict
from ledger.policy.config import read_section, section_rules
from ledger.policy.opencode.places import below
from ledger.policy.rules import from_config

DEFAULT_AGENT: Final = "build"
OWN_AGENTS: Final = frozenset({"build", "plan", "general", "explore", "compaction", "title", "summary"})
_LAYER: Final = "built-in"


class Folders(msgspec.Struct, frozen=True):
    """The folders of the program's own files: `data` (`~/.local/share/opencode`) and `temporary` (`/tmp/opencode`).

    `data` is None when neither it nor the home directory is known; no rule is made for it then. `plans` is the
    pattern of plan files in `data`, relative to the worktree.
    """

    data: str | None
    temporary: str
    plans: str | None

    @property
    def tool_output(self) -> str | None:
        return None if self.data is None else self.data + "/tool-output/*"


def default_rules(folders: Folders) -> tuple[Rule, ...]:
    """Return the rules of every agent. The vendor's page says that `*.env` is denied; the program asks."""
    return _rules(
        {
            "*": "allow",
            "doom_loop": "ask",
            "external_directory": _own_folders(folders),
            "question": "deny",
            "plan_enter": "deny",
            "plan_exit": "deny",
            "read": {"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"},
        }
    )


def agent_rules(agent: str, folders: Folders) -> tuple[Rule, ...]:
    """Return the rules that the program adds for one of its own agents; nothing for any other."""
    looking = dict.fromkeys(("grep", "glob", "list", "bash", "webfetch", "websearch", "read"), "allow")
    planning: dict[str, Any] = {"question": "allow", "plan_exit": "allow", "task": {"general": "deny"}}
    if folders.data is not None:
        planning["external_directory"] = {below(folders.data + "/plans"): "allow"}
    planning["edit"] = {"*": "deny", ".opencode/plans/*.md": "allow"}
    if folders.plans is not None:
        planning["edit"][folders.plans] = "allow"
    agents: Mapping[str, Mapping[str, Any]] = {
        "build": {"question": "allow", "plan_enter": "allow"},
        "plan": planning,
        "general": {"todowrite": "deny"},
        "explore": {"*": "deny", **looking, "external_directory": _own_folders(folders)},
        "compaction": {"*": "deny"},
        "title": {"*": "deny"},
        "summary": {"*": "deny"},
    }
    return _rules(agents.get(agent, {}))


def tool_output_rules(folders: Folders, before: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return rules that keep the program's own output readable, unless an earlier rule denies exactly that pattern."""
    pattern = folders.tool_output
    if pattern is None:
        return ()
    for rule in before:
        if rule.permission == "external_directory" and rule.pattern == pattern and rule.action is Verdict.DENY:
            return ()
    return _rules({"external_directory": {pattern: "allow"}})


def child_rules(parent_session: Iterable[Rule], subagent: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the session rules of a sub-agent's session, which come after all other rules of `subagent`.

    `parent_session` are the rules of the parent's *session* (not of its agent): its denies and its rules for
    `external_directory` are inherited. `subagent` are all rules of the sub-agent; `todowrite` and `task` are denied if
    it has no rule for them.
    """
    own = {rule.permission for rule in subagent}
    kept = [rule for rule in parent_session if rule.permission == "external_directory" or rule.action is Verdict.DENY]
    denied = from_config({name: "deny" for name in ("todowrite", "task") if name not in own})
    return (*kept, *denied)


def _own_folders(folders: Folders) -> dict[str, str]:
    own = [folders.tool_output, below(folders.temporary)]
    return {"*": "ask", **{pattern: "allow" for pattern in own if pattern is not None}}


def _rules(config: Mapping[str, Any]) -> tuple[Rule, ...]:
    rules = section_rules(read_section(config), home=None)
    return tuple(msgspec.structs.replace(rule, layer=_LAYER) for rule in rules)
