"""The frame of a policy of `Tool` and `Tool(specifier)` rules: its source, options and rules, and the files it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import msgspec

from ledger.core.policy import PolicySource
from ledger.policy.facts import FileFacts
from ledger.policy.options import PROFILES, GivenOptions
from ledger.policy.toolrules.rule import ToolRule, read_rules
from ledger.policy.unknown import UNKNOWN_FOLDER

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
    given = GivenOptions(dialect, options, names)
    hardened, cwd = given.choice("profile", PROFILES) == "hardened", given.folder("cwd")
    return ToolRuleOptions(
        hardened,
        cwd or UNKNOWN_FOLDER,
        given.folder("home"),
        given.facts(cwd or "/", facts),
        given.choice("mode", MODES),
        cwd or UNKNOWN_FOLDER,
    )


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
