"""The frame of a policy of `Tool` and `Tool(specifier)` rules: its source, options and rules, and the files it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import msgspec

from ledger.core.policy import PolicySource
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts, MappedFacts, NoFacts
from ledger.policy.toolrules.rule import ToolRule, read_rules
from ledger.policy.unknown import UNKNOWN_FOLDER

PROFILES: Final = ("hardened", "faithful")
MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")


class ToolRuleOptions(msgspec.Struct, frozen=True):
    """Options of a source.

    `cwd` is the project, `UNKNOWN_FOLDER` while unknown; `base` is the call's working directory.

    `home` is the home directory of the agent's user. All are absolute; `home` may be unknown.
    """

    hardened: bool
    cwd: str
    home: str | None
    facts: FileFacts
    mode: str = "default"
    base: str = UNKNOWN_FOLDER

    def at(self, cwd: str | None) -> ToolRuleOptions:
        """Return the options for a call that runs in `cwd`.

        In the faithful profile `cwd` replaces an unknown project.
        """
        if cwd is None:
            return self
        base = cwd.rstrip("/") or "/"
        project = base if self.cwd == UNKNOWN_FOLDER and not self.hardened else self.cwd
        return msgspec.structs.replace(self, cwd=project, base=base)

    @property
    def is_placed(self) -> bool:
        """Return whether paths can be inside the project: it is known, or assumed to be."""
        return self.cwd != UNKNOWN_FOLDER or not self.hardened


def read_options(
    dialect: str, options: Mapping[str, Any], facts: FileFacts | None, names: Sequence[str]
) -> ToolRuleOptions:
    """Check the options of a source. `fs` among them replaces `facts`. Raises PolicyError."""
    for name in options:
        if name not in names:
            known = ", ".join(names)
            raise PolicyError(f"the {dialect} dialect has no option {shown(name)}; it has {known}", key=name)
    profile = _choice(options, "profile", PROFILES)
    cwd = _folder(options, "cwd") or UNKNOWN_FOLDER
    entries = options.get("fs")
    if entries is not None:
        if not isinstance(entries, Mapping):
            raise PolicyError(f"the option `fs` must be an object from path to fact, not {shown(entries)}", key="fs")
        facts = MappedFacts(entries, "/" if cwd == UNKNOWN_FOLDER else cwd)
    mode = _choice(options, "mode", MODES)
    return ToolRuleOptions(profile == "hardened", cwd, _folder(options, "home"), facts or NoFacts(), mode, cwd)


def _choice(options: Mapping[str, Any], name: str, known: Sequence[str]) -> str:
    """Return an option with a closed list of values; the first one is the default."""
    value = options.get(name)
    if value is None:
        return known[0]
    if isinstance(value, str) and value in known:
        return value
    wanted = " or ".join(f"`{choice}`" for choice in known)
    raise PolicyError(f"the option `{name}` must be {wanted}, not {shown(value)}", key=name)


def _folder(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/"):
        raise PolicyError(f"the option `{name}` must be an absolute path, not {shown(value)}", key=name)
    return value.rstrip("/") or "/"


class ToolRulePolicy:
    """Rules of a source, compiled. Raises PolicyError for an unknown option and for anything malformed."""

    dialect: ClassVar[str]
    options: ClassVar[Sequence[str]]
    """The names of the options that the dialect has."""

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        self._source: Final = source
        self._options: Final = read_options(self.dialect, source.options, facts, self.options)
        self._rules: Final = read_rules(source.layers)

    @property
    def source(self) -> PolicySource:
        return self._source

    @property
    def rules(self) -> tuple[ToolRule, ...]:
        """Return the rules in force, lowest layer first; those of an untrusted layer without its allows."""
        return self._rules

    def with_facts(self, facts: FileFacts) -> Self:
        """Return the same policy with other facts about files; `fs` of the source takes precedence."""
        return type(self)(self._source, facts)
