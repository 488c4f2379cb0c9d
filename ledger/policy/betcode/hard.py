"""Betcode rules for one command in the hardened profile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ledger.core.policy import Verdict
from ledger.policy.betcode.judge import BetCodeJudge
from ledger.policy.betcode.match import Matching
from ledger.policy.betcode.tiers import MatchesToolRule, TierDecision, decide
from ledger.policy.reach import leads_out
from ledger.policy.shell import Access, CommandRules, Ruling, ShellCommand, Spelling
from ledger.policy.spelled import spelled_paths
from ledger.policy.toolrules.calls import BASH
from ledger.policy.toolrules.commands import (
    covered_texts,
    has_wildcard,
    normal_specifier,
    specifier_words,
    spelled_by,
)
from ledger.policy.toolrules.pathrules import is_access_rule
from ledger.policy.toolrules.rule import ToolRule


def _of_file(matching: Matching, tool: str, path: str, rule: ToolRule) -> bool:
    return matching.file_tool(rule, tool, path)


class BetCodeCommands(CommandRules):
    """Rules and grants of one call. The faithful profile handles denies and asks of a whole tool."""

    def __init__(self, judge: BetCodeJudge) -> None:
        self.judge = judge

    def allow(self, command: ShellCommand) -> Ruling | None:
        return self._allowing(command, lambda rule: rule.action is Verdict.ALLOW)

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        return self._allowing(command, lambda rule: rule.specifier is not None and not has_wildcard(rule.specifier))

    def _allowing(self, command: ShellCommand, wanted: MatchesToolRule) -> Ruling | None:
        judge = self.judge

        def matches(rule: ToolRule) -> bool:
            return rule.action is Verdict.ALLOW and wanted(rule) and judge.allows(rule, command, command)

        decision = decide(judge.rules, matches)
        if decision is not None:
            return Ruling(Verdict.ALLOW, decision.refs, spelled=spelled_by(decision.rules))
        granted = [(grant_id, rule) for grant_id, rule in judge.grants.about(*covered_texts(command)) if matches(rule)]
        if not granted:
            return None
        return Ruling(Verdict.ALLOW, (), tuple(one for one, _ in granted), spelled_by(rule for _, rule in granted))

    def restrict(self, spelling: Spelling) -> Ruling | None:
        return self._restricting(lambda rule: self.judge.matching.restricts_words(rule, spelling.words))

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        matching = self.judge.matching
        return self._restricting(
            lambda rule: rule.specifier is not None and matching.restricts_redirect(rule, (access,), path, directory)
        )

    def guards_files(self) -> bool:
        return any(
            rule.action is not Verdict.ALLOW and is_access_rule(rule, access)
            for rule in self.judge.rules
            for access in Access
        )

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        matching = self.judge.matching
        forms = spelled_paths(path, directory, matching.home, matching.facts)
        return self._restricting(
            lambda rule: any(is_access_rule(rule, access) for access in accesses) and matching.denies_glob(rule, forms)
        )

    def _restricting(self, matches: MatchesToolRule) -> Ruling | None:
        decision = decide(self.judge.rules, lambda rule: rule.action is not Verdict.ALLOW and matches(rule))
        return Ruling(decision.verdict, decision.refs) if decision else None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        return [
            specifier_words(rule.specifier)
            for rule in self.judge.rules
            if rule.tool == BASH and rule.specifier is not None and rule.action is not Verdict.ALLOW
        ]

    def restricting(self) -> tuple[str, ...]:
        return tuple(
            normal_specifier(rule.specifier)
            for rule in self.judge.rules
            if rule.tool == BASH and rule.specifier is not None and rule.action is not Verdict.ALLOW
        )

    def outside(self, path: str, directory: str) -> bool:
        matching = self.judge.matching
        if not leads_out(path, directory, (matching.cwd,), matching.facts, matching.home):
            return False
        # A rule for the whole tool does not extend to places outside the project.
        decision = self._file(Access.READ, matching.place(path, directory))
        return decision is None or all(rule.specifier is None for rule in decision.rules)

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        matching = self.judge.matching
        decision = self._file(access, matching.place(path, directory))
        return None if decision is None else Ruling(Verdict.ALLOW, decision.refs)

    def _file(self, access: Access, path: str) -> TierDecision | None:
        """Return the rule that allows a tool to read or change a file; an allow to change also allows reading."""
        tools = ("Read", "Edit") if access is Access.READ else ("Edit",)
        matching = self.judge.matching
        for tool in tools:
            decision = decide(self.judge.rules, partial(_of_file, matching, tool, path))
            if decision is not None and decision.verdict is Verdict.ALLOW:
                return decision
        return None

    def guards_cd(self) -> bool:
        return False
