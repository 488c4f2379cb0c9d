"""Rules from a file: an OpenCode configuration, or a list of rules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ledger.core.policy import Layer
from ledger.policy.checks import RuleOrigin, as_rules, shown
from ledger.policy.config import read_section, read_tools
from ledger.policy.demands import demands_in
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document
from ledger.policy.rule_files import parse_document, read_text

_SECTIONS: Final = ("tools", "permission")
_AGENT_KEYS: Final = ("agent", "mode")


def own_home() -> str | None:
    """Return the home directory of this process; None if it has none."""
    found = os.path.expanduser("~")  # noqa: PTH111 - pathlib raises where there is none
    return None if found == "~" else found


def load_rules(path: str | os.PathLike[str], *, name: str = "rules", content: bytes | None = None) -> Layer:
    """Return one layer from a `.json` or `.jsonc` file: an OpenCode configuration, or a list of rules.

    Of a configuration only the permission members are kept, so that keys of providers never reach the log.
    `name` is the layer's name, `content` what was read from the file already. Raises PolicyError with the file and, if known, the line.
    """
    file = os.fspath(path)
    document = parse_document(file, read_text(file, content), comments=file.endswith(".jsonc"))
    if isinstance(document.value, list):
        rules = as_rules(document.value, RuleOrigin(name, file, document.lines))
        return Layer(name, rules=rules, file=file)
    layer = config_layer(document, file, name)
    if not layer.config and not layer.demands:
        raise PolicyError(f"{shown(file)} has neither `permission` nor `tools`, so it sets no rule", file=file)
    return layer


def config_layer(document: Document, file: str, name: str, *, trusted: bool = True) -> Layer:
    """Return the layer of a configuration; one without rules has an empty configuration. Raises PolicyError."""
    config = _permission_parts(document.value, file)
    lines = {where: line for where, line in document.lines.items() if _concerns_permissions(where)}
    _check(config, RuleOrigin(name, file, lines))
    demands = demands_in(document.value, RuleOrigin(name, file, document.lines))
    return Layer(name, config=config, file=file, trusted=trusted, lines=lines, demands=demands)


def _permission_parts(config: Any, file: str) -> dict[str, Any]:
    if not isinstance(config, dict):
        raise PolicyError(f"{shown(file)} must hold an object with `permission`, or a list of rules", file=file)
    kept = {key: config[key] for key in _SECTIONS if key in config}
    for key in _AGENT_KEYS:
        if isinstance(agents := config.get(key), dict):
            sections = {agent: _permission_members(section) for agent, section in agents.items()}
            kept |= {key: sections} if any(sections.values()) else {}
    return kept


def _permission_members(section: Any) -> Any:
    return {key: section[key] for key in _SECTIONS if key in section} if isinstance(section, dict) else section


def _concerns_permissions(where: str) -> bool:
    keys = where.split("/")[1:]
    if keys[:1] in (["agent"], ["mode"]):
        keys = keys[2:]
    return keys[:1] in (["permission"], ["tools"])


def _check(config: Mapping[str, Any], origin: RuleOrigin, keys: tuple[str, ...] = ()) -> None:
    """Check a configuration while its file and lines are known; the check does not need the home directory."""
    if "permission" in config:
        read_section(config["permission"], origin, (*keys, "permission"))
    if "tools" in config:
        read_tools(config["tools"], origin, (*keys, "tools"))
    for key in _AGENT_KEYS:
        for agent, section in config.get(key, {}).items():
            if not isinstance(section, Mapping):
                raise origin.problem(f"the section of the agent {shown(agent)} must be an object", (key, agent))
            _check(section, origin, (*keys, key, agent))
