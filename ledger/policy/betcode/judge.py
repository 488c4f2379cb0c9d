"""Judging of units: by tiers, then grants, then ask (betcode.md, "Permission Rule Matching")."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ledger.core.policy import Part, RuleRef, Verdict, strictest
from ledger.policy.betcode.match import CommandUnit, FileUnit, MatchesToolRule, Matching, TierDecision, Unit, decide
from ledger.policy.facts import FileFacts
from ledger.policy.reach import leads_out
from ledger.policy.shell import Access, CommandRules, Ruling, ShellCommand, Spelling
from ledger.policy.shell.hardened import spellings
from ledger.policy.shell.unwrap import peeled
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import spelled_paths
from ledger.policy.toolrules.commands import (
    BASH,
    WEB_FETCH,
    covered_texts,
    has_wildcard,
    normal_specifier,
    specifier_words,
    spelled_by,
)
from ledger.policy.toolrules.domains import is_unreadable
from ledger.policy.toolrules.grants import GrantedRules, texts_of
from ledger.policy.toolrules.paths import RESTRICTED_FILE, accesses_of, files_of, governs, is_access_rule, is_path_tool
from ledger.policy.toolrules.rule import ToolRule


class BetCodeRules:
    """The rules of a policy, sorted out once; each list in the order of the rules."""

    def __init__(self, rules: Sequence[ToolRule]) -> None:
        self.all = tuple(rules)
        self.restricting = [rule for rule in rules if rule.action is not Verdict.ALLOW]
        self.allowing = [rule for rule in rules if rule.action is Verdict.ALLOW and _is_about_commands(rule)]
        self.exact = [rule for rule in self.allowing if not _wild(rule)]
        self.of_commands = [rule for rule in rules if rule.action is not Verdict.ALLOW or _is_about_commands(rule)]
        named = [rule for rule in self.restricting if rule.tool == BASH]
        self.named = [(rule, rule.specifier) for rule in named if rule.specifier is not None]
        self.words = [specifier_words(specifier) for _, specifier in self.named]
        self.texts = tuple(normal_specifier(specifier) for _, specifier in self.named)
        self.of_files = {
            access: [rule for rule in self.restricting if is_access_rule(rule, access)] for access in Access
        }


def _is_about_commands(rule: ToolRule) -> bool:
    return rule.specifier is None or rule.tool == BASH


class BetCodeJudge:
    """Compiled rules with one call's grants."""

    def __init__(self, rules: BetCodeRules, matching: Matching, grants: GrantedRules) -> None:
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

        decision = decide(self.rules.of_commands, matches)
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
        for (rule, _), wanted in zip(self.rules.named, self.rules.words, strict=True):
            if wanted and words.issuperset(wanted):
                return rule.ref
        return None

    def _redirect(self, unit: FileUnit) -> tuple[Part, TierDecision | None]:
        """Judge a redirection: no rule allows a file that a line reads or writes, so the best verdict is ask."""

        def matches(rule: ToolRule) -> bool:
            return self.matching.restricts_redirect(rule, unit.accesses, unit.path, self.matching.base)

        decision = decide(self.rules.restricting, matches)
        verdict = decision.verdict if decision else Verdict.ASK
        return Part(unit.text, verdict, decision.refs if decision else (), liftable=False), decision

    def tool(self, tool: str, value: Any, path: str | None) -> tuple[Part, TierDecision | None]:
        """Judge a call of any other tool as one unit."""
        is_file = is_path_tool(tool)

        def matches(rule: ToolRule) -> bool:
            if is_file:
                return self.matching.file_tool(rule, tool, path)
            return self.matching.other_tool(rule, tool, value)

        decision = decide(self.rules.all, matches)
        part, decision = self._part(path or tool, decision, matches, texts_of(tool, value, path))
        if tool == WEB_FETCH and part.verdict is Verdict.ALLOW and is_unreadable(value, self.rules.all):
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
            known = rule.specifier is not None and governs(rule.tool, tool)
            return known and matching.denies_any(rule, files.paths)

        decision = decide(self.rules.restricting, restricts)
        if decision is not None and strictest((part.verdict, decision.verdict)) is not part.verdict:
            return Part(part.text, decision.verdict, decision.refs, liftable=False), decision, None
        about = [rule for access in accesses_of(tool) for rule in self.rules.of_files[access]]
        picked = tuple([rule for rule in about if matching.denies_glob(rule, files.globs)])
        if part.verdict is Verdict.ALLOW and picked:
            asking = TierDecision(Verdict.ASK, picked)
            return Part(part.text, Verdict.ASK, asking.refs, liftable=False), asking, RESTRICTED_FILE
        if part.verdict is Verdict.ALLOW and files.reason is not None:
            return Part(part.text, Verdict.ASK, liftable=False), None, files.reason
        return *found, None

    def _needs_path(self, tool: str) -> bool:
        """Return whether a rule about paths could not be evaluated; the call is then not allowed."""
        return any(rule.specifier is not None and governs(rule.tool, tool) for rule in self.rules.restricting)

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


# --- the hardened profile ---------------------------------------------------------------------------------------------


def _of_file(matching: Matching, tool: str, path: str, rule: ToolRule) -> bool:
    return matching.file_tool(rule, tool, path)


class BetCodeCommands(CommandRules):
    """Rules and grants of one call. The faithful profile handles denies and asks of a whole tool."""

    def __init__(self, judge: BetCodeJudge) -> None:
        self.judge = judge

    def allow(self, command: ShellCommand) -> Ruling | None:
        return self._allowing(command, self.judge.rules.allowing, lambda _rule: True)

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        return self._allowing(command, self.judge.rules.exact, lambda rule: not _wild(rule))

    def _allowing(self, command: ShellCommand, rules: Sequence[ToolRule], wanted: MatchesToolRule) -> Ruling | None:
        judge = self.judge
        decision = decide(rules, lambda rule: judge.allows(rule, command, command))
        if decision is not None:
            return Ruling(Verdict.ALLOW, decision.refs, spelled=spelled_by(decision.rules))
        granted = [
            (grant_id, rule)
            for grant_id, rule in judge.grants.about(*covered_texts(command))
            if rule.action is Verdict.ALLOW and wanted(rule) and judge.allows(rule, command, command)
        ]
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
        return any(self.judge.rules.of_files.values())

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        matching, of_files = self.judge.matching, self.judge.rules.of_files
        forms = spelled_paths(path, directory, matching.home, matching.facts)
        known = [rule for access in accesses for rule in of_files[access]]
        ordered = known if len(accesses) == 1 else [rule for rule in self.judge.rules.restricting if rule in known]
        return self._ruling(ordered, lambda rule: matching.denies_glob(rule, forms))

    def _restricting(self, matches: MatchesToolRule) -> Ruling | None:
        return self._ruling(self.judge.rules.restricting, matches)

    def _ruling(self, rules: Sequence[ToolRule], matches: MatchesToolRule) -> Ruling | None:
        decision = decide(rules, matches)
        return Ruling(decision.verdict, decision.refs) if decision else None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        return self.judge.rules.words

    def restricting(self) -> tuple[str, ...]:
        return self.judge.rules.texts

    def facts_of_files(self) -> FileFacts:
        return self.judge.matching.facts

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
            decision = decide(self.judge.rules.all, partial(_of_file, matching, tool, path))
            if decision is not None and decision.verdict is Verdict.ALLOW:
                return decision
        return None

    def guards_cd(self) -> bool:
        return False
