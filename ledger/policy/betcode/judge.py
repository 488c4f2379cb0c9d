"""Judging of units: by tiers, then grants, then ask (betcode.md, "Permission Rule Matching")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.core.policy import Part, RuleRef, Verdict, strictest
from ledger.policy.betcode.match import Matching
from ledger.policy.betcode.tiers import MatchesToolRule, TierDecision, decide
from ledger.policy.betcode.units import CommandUnit, FileUnit, Unit
from ledger.policy.shell import ShellCommand
from ledger.policy.shell.hardened import spellings
from ledger.policy.shell.unwrap import peeled
from ledger.policy.shell.words import loosen
from ledger.policy.toolrules.callfiles import RESTRICTED_FILE, files_of
from ledger.policy.toolrules.calls import BASH, WEB_FETCH
from ledger.policy.toolrules.commands import covered_texts, has_wildcard, specifier_words
from ledger.policy.toolrules.domains import is_unreadable
from ledger.policy.toolrules.grants import GrantedRules, texts_of
from ledger.policy.toolrules.pathrules import access_of, governs, is_access_rule, is_path_tool
from ledger.policy.toolrules.rule import ToolRule


class BetCodeJudge:
    """Compiled rules with one call's grants."""

    def __init__(self, rules: Sequence[ToolRule], matching: Matching, grants: GrantedRules) -> None:
        self.rules, self.matching, self.grants = rules, matching, grants

    def unit(self, unit: Unit) -> tuple[Part, TierDecision | None]:
        if isinstance(unit, FileUnit):
            return self._redirect(unit)
        return self._command(unit)

    def _command(self, unit: CommandUnit) -> tuple[Part, TierDecision | None]:
        forms = {spelling.words for command in (unit.command, *unit.wrapped) for spelling in spellings(command)}
        inner = peeled(unit.command)

        def matches(rule: ToolRule) -> bool:
            if rule.action is Verdict.ALLOW:
                return self.allows(rule, unit.command, inner)
            whole = rule.specifier is None and self.matching.allows_command(rule, unit.command)
            return whole or any(self.matching.restricts_words(rule, words) for words in forms)

        decision = decide(self.rules, matches)
        if decision is not None and decision.verdict is Verdict.ALLOW and all(map(_wild, decision.rules)):
            near = self._near_miss(unit.command)
            if near is not None:
                return Part(unit.text, Verdict.ASK, (near,), liftable=False), None
        texts = (*covered_texts(unit.command), *covered_texts(inner))
        return self._part(unit.text, decision, lambda rule: self.allows(rule, unit.command, inner), texts)

    def allows(self, rule: ToolRule, command: ShellCommand, inner: ShellCommand) -> bool:
        if command.assignments or not command.words:
            return False
        return self.matching.allows_command(rule, command) or (
            inner is not command and self.matching.allows_command(rule, inner)
        )

    def _near_miss(self, command: ShellCommand) -> RuleRef | None:
        """Return a deny or ask whose words all occur, in another order; a wildcard allow then becomes ask."""
        words = {form for word in command.words for form in (word.raw, loosen(word))}
        for rule in self.rules:
            if rule.tool == BASH and rule.specifier is not None and rule.action is not Verdict.ALLOW:
                wanted = specifier_words(rule.specifier)
                if wanted and all(word in words for word in wanted):
                    return rule.ref
        return None

    def _redirect(self, unit: FileUnit) -> tuple[Part, TierDecision | None]:
        """Judge a redirection: no rule allows a file that a line reads or writes, so the best verdict is ask."""

        def matches(rule: ToolRule) -> bool:
            return rule.action is not Verdict.ALLOW and self.matching.restricts_redirect(
                rule, unit.accesses, unit.path, self.matching.base
            )

        decision = decide(self.rules, matches)
        verdict = decision.verdict if decision else Verdict.ASK
        return Part(unit.text, verdict, decision.refs if decision else (), liftable=False), decision

    def tool(self, tool: str, value: Any, path: str | None) -> tuple[Part, TierDecision | None]:
        """Judge a call of any other tool as one unit."""
        is_file = is_path_tool(tool)

        def matches(rule: ToolRule) -> bool:
            if is_file:
                return self.matching.file_tool(rule, tool, path)
            return self.matching.other_tool(rule, tool, value)

        decision = decide(self.rules, matches)
        part, decision = self._part(path or tool, decision, matches, texts_of(tool, value, path))
        if tool == WEB_FETCH and part.verdict is Verdict.ALLOW and is_unreadable(value, self.rules):
            return Part(part.text, Verdict.ASK, liftable=False), None
        if part.verdict is Verdict.ALLOW and path is None and is_file and self._needs_path(tool):
            return Part(part.text, Verdict.ASK, liftable=False), None
        return part, decision

    def tightened(
        self, tool: str, value: Any, found: tuple[Part, TierDecision | None]
    ) -> tuple[Part, TierDecision | None, str | None]:
        """Return the stricter of a verdict on a file and the rules on every file that the input may lead to.

        The text is the reason of an ask that no rule about the file itself gives.
        """
        part, matching = found[0], self.matching
        files = files_of(tool, value, matching.base, matching.home, matching.facts)

        def restricts(rule: ToolRule) -> bool:
            known = rule.action is not Verdict.ALLOW and rule.specifier is not None and governs(rule.tool, tool)
            return known and matching.denies_any(rule, files.paths)

        decision = decide(self.rules, restricts)
        if decision is not None and strictest((part.verdict, decision.verdict)) is not part.verdict:
            return Part(part.text, decision.verdict, decision.refs, liftable=False), decision, None
        picked = tuple(
            rule
            for rule in self.rules
            if rule.action is not Verdict.ALLOW
            and is_access_rule(rule, access_of(tool))
            and matching.denies_glob(rule, files.globs)
        )
        if part.verdict is Verdict.ALLOW and picked:
            asking = TierDecision(Verdict.ASK, picked)
            return Part(part.text, Verdict.ASK, asking.refs, liftable=False), asking, RESTRICTED_FILE
        if part.verdict is Verdict.ALLOW and files.reason is not None:
            return Part(part.text, Verdict.ASK, liftable=False), None, files.reason
        return *found, None

    def _needs_path(self, tool: str) -> bool:
        """Return whether a rule about paths could not be evaluated; the call is then not allowed."""
        return any(
            rule.specifier is not None and rule.action is not Verdict.ALLOW and governs(rule.tool, tool)
            for rule in self.rules
        )

    def _part(
        self, text: str, decision: TierDecision | None, covered: MatchesToolRule, texts: Sequence[str]
    ) -> tuple[Part, TierDecision | None]:
        if decision is not None:
            return Part(text, decision.verdict, decision.refs, liftable=False), decision
        granted = [(grant_id, rule) for grant_id, rule in self.grants.about(*texts) if covered(rule)]
        for action in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
            chosen = [(grant_id, rule) for grant_id, rule in granted if rule.action is action]
            if chosen:
                ids = tuple(grant_id for grant_id, _ in chosen)
                rules = () if action is Verdict.ALLOW else tuple(rule.ref for _, rule in chosen)
                found = None if action is Verdict.ALLOW else TierDecision(action, tuple(rule for _, rule in chosen))
                return Part(text, action, rules, liftable=False, grants=ids), found
        return Part(text, Verdict.ASK), None


def _wild(rule: ToolRule) -> bool:
    return rule.specifier is None or has_wildcard(rule.specifier)
