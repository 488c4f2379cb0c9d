"""Rules of any dialect in one neutral form: tool, extent and action. Pure.

In the list the last match wins, whatever the order of the dialect was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from ledger.core.policy import STRICTNESS, Verdict
from ledger.policy.rule_list import ListedRule

ANY: Final = "*"
"""The subject of a rule for every tool that is not in `SUBJECTS`."""

SUBJECTS: Final = (
    "shell", "read", "edit", "fetch", "search", "task", "glob", "grep", "list", "todowrite", "todoread", "skill",
)  # fmt: skip
"""The kinds of tools that dialects have in common."""


class PatternForm(StrEnum):
    """The extent of a rule within a tool; `text` of the rule holds its pattern."""

    ALL = "all"
    EXACT = "exact"  # this command and nothing else
    PREFIX = "prefix"  # this command, with or without more words
    GLOB = "glob"  # `*` is any text and `?` one character; ` *` at the end is optional
    FLAT_PATH = "flat_path"  # `*` is any text, also across folders
    IGNORE_PATH = "ignore_path"  # as in .gitignore
    ROOTED_PATH = "rooted_path"  # the whole path from the working directory, `**` across folders
    DOMAIN = "domain"
    NAME = "name"  # a sub-agent, a skill
    OTHER = "other"  # a pattern that only its own dialect can express


class Neutral(msgspec.Struct, frozen=True):
    """One rule. `source` is the original rule and `note` a difference from it.

    `partial`: the rule covers one of several tools of its subject.
    """

    subject: str
    form: PatternForm
    text: str
    action: Verdict
    source: ListedRule
    partial: bool = False
    note: str | None = None

    @property
    def tool(self) -> str:
        """Return the tool's name in the rule's own dialect."""
        return self.source.permission


ChangeReporter = Callable[[str], None]
"""A function that records a change of the current rule, given as a sentence."""


class ConversionChange(msgspec.Struct, frozen=True):
    """A rule that could not be converted unchanged, and its replacement in words."""

    rule: ListedRule
    text: str


class ToolNames(NamedTuple):
    """The tools of a dialect by subject. A subject without a tool has no name.

    `more` are tools that other dialects combine with another tool, each with its subject. `groups` are the tools that
    must all be allowed before a subject is.
    """

    names: Mapping[str, str] = {}
    more: Mapping[str, str] = {}
    groups: Mapping[str, frozenset[str]] = {}

    @classmethod
    def of(
        cls,
        names: Sequence[str | None],
        more: Mapping[str, str] = MappingProxyType({}),
        groups: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> ToolNames:
        """Return the tools whose names are given in the order of `SUBJECTS`."""
        return cls({one: name for one, name in zip(SUBJECTS, names, strict=True) if name is not None}, more, groups)

    def tool(self, subject: str) -> str | None:
        """Return the name of the tool; None if there is no such tool."""
        return self.names.get(subject) if subject in SUBJECTS else subject

    def tools(self, subject: str) -> list[str]:
        """Return every tool that belongs to a subject."""
        name = self.tool(subject)
        return [] if name is None else [name, *(one for one, known in self.more.items() if known == subject)]

    def subject(self, tool: str) -> str:
        known = next((subject for subject, name in self.names.items() if name == tool), None)
        return known or self.more.get(tool, tool)


class Notation(ABC):
    """The reading and writing of one dialect's rules in the neutral form."""

    asks: ClassVar[bool] = True
    """Rules can ask."""

    free: ClassVar[frozenset[str]] = frozenset()
    """Subjects that are not asked about without a rule."""

    looks_freely: ClassVar[bool] = False
    """Commands that only look are not asked about without a rule."""

    guards_files: ClassVar[bool] = False
    """Files outside the project are asked about before a rule for reading or editing applies."""

    def __init__(self, name: str, tool_names: ToolNames, tools: Sequence[str]) -> None:
        self.name, self.tool_names, self.tools = name, tool_names, tools

    @abstractmethod
    def read(self, rules: Any, listed: Sequence[ListedRule]) -> list[Neutral]:
        """Return the rules of a compiled policy, ordered so that the last match decides."""

    def yields(self, rule: Neutral) -> bool:
        """Return whether a restriction can only be written for its whole tool, behind narrower allows."""
        return False

    @abstractmethod
    def write(self, rules: Sequence[Neutral], changes: list[ConversionChange]) -> dict[str, Any]:
        """Return a configuration with the meaning of the rules."""

    def rewrite(
        self, listed: Sequence[ListedRule], origin: Notation, changes: list[ConversionChange]
    ) -> dict[str, Any] | None:
        """Return a configuration with rules of the same language; None if `origin` is another one."""
        return None


def strictest_last(
    found: Iterable[Neutral], groups: Mapping[str, frozenset[str]], tier: Callable[[Neutral], int] | None = None
) -> list[Neutral]:
    """Return the rules by tier and strictness.

    An allow of a whole tool is partial unless all tools of its subject are allowed.
    """
    rules = list(found)
    allowed = {one.tool for one in rules if one.action is Verdict.ALLOW and one.form is PatternForm.ALL}
    for at, one in enumerate(rules):
        group = groups.get(one.subject)
        if group and one.form is PatternForm.ALL and one.action is Verdict.ALLOW:
            rules[at] = msgspec.structs.replace(one, partial=not group <= allowed)
    return sorted(rules, key=lambda one: (tier(one) if tier else 0, STRICTNESS[one.action]))


def command_form(pattern: str) -> tuple[PatternForm, str]:
    """Return the form of a wildcard for commands."""
    prefix = pattern.removesuffix(" *")
    if set("*?") & set(prefix) or prefix != " ".join(prefix.split()):
        return PatternForm.GLOB, pattern
    return (PatternForm.PREFIX if prefix != pattern else PatternForm.EXACT), prefix
