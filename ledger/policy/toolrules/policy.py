"""The frame of a policy of `Tool` and `Tool(specifier)` rules: its source, options and rules, and the files it knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Self

from ledger.core.policy import PolicySource
from ledger.policy.facts import FileFacts
from ledger.policy.toolrules.options import read_options
from ledger.policy.toolrules.rule import ToolRule, read_rules


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
