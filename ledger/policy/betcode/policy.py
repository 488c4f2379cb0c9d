"""The dialect `betcode`: judging of units by tiers, then grants, then ask (betcode.md, "Permission Rule Matching")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ledger.core.events import Extending
from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, RuleRef, Verdict, strictest
from ledger.policy.betcode.match import (
    CommandUnit,
    FileUnit,
    MatchesToolRule,
    Matching,
    TierDecision,
    Unit,
    decide,
    units_of,
)
from ledger.policy.dialect import FAITHFUL, WHOLE, AnswerEffects, ListedRule
from ledger.policy.evaluations import NO_PATTERN, evaluated, joined_calls
from ledger.policy.facts import FileFacts
from ledger.policy.inputs import command_of
from ledger.policy.shell.analyse import analyse_simple
from ledger.policy.shell.hardened import hardened, spellings
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Access, Analysis, CommandRules, Ruling, ShellCommand, Spelling
from ledger.policy.shell.unwrap import peeled
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import leads_out, readable_evaluation, spelled_paths
from ledger.policy.toolrules.commands import (
    BASH,
    WEB_FETCH,
    GrantedRules,
    covered_texts,
    grant_rule,
    has_wildcard,
    inputs_of,
    is_unreadable,
    normal_specifier,
    specifier_words,
    spelled_by,
    texts_of,
)
from ledger.policy.toolrules.dialect import TOOL_RULES, ToolRuleDialect, ToolRuleNotation
from ledger.policy.toolrules.paths import (
    RESTRICTED_FILE,
    absolute,
    accesses_of,
    exact_path,
    files_of,
    governs,
    is_access_rule,
    is_path_tool,
    path_of,
)
from ledger.policy.toolrules.rule import ToolRule, ToolRulePolicy, names


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
            return known and matching.denies(rule, files.paths)

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


# --- the hardened profile
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


OPTIONS = ("profile", "cwd", "home", "fs")


class BetCodePolicy(ToolRulePolicy):
    """Rules of BetCode, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `cwd` (the session's working directory, the root of
    relative patterns; a call's own `cwd` is the root of its paths), `home`, and `fs` (facts about files, see
    `MappedFacts`). Raises PolicyError for any other option and for anything malformed.
    """

    dialect = "betcode"
    options = OPTIONS

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        super().__init__(source, facts)
        self._sorted = BetCodeRules(self._rules)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge every unit of a call: rules by tier, then grants, then ask."""
        tool, inputs = inputs_of(call)
        if not inputs:
            return Evaluation(Verdict.ALLOW, reason=NO_PATTERN)
        judge = BetCodeJudge(self._sorted, Matching(self._options.at(call.cwd)), GrantedRules(grants))
        found = [self._evaluate(judge, tool, value) for value in inputs]
        return readable_evaluation(joined_calls(found))

    def _evaluate(self, judge: BetCodeJudge, tool: str, value: Any) -> Evaluation:
        command = command_of(value) if tool == BASH else None
        if command is not None:
            return self._line(judge, command)
        written = path_of(tool, value, judge.matching.base) if is_path_tool(tool) else None
        path = None if written is None else absolute(written, judge.matching.base, judge.matching.home)
        part, decision = judge.tool(tool, value, path)
        reason = None
        may_name_files = path is not None or (not is_path_tool(tool) and any(self._sorted.of_files.values()))
        if self._options.hardened and may_name_files and part.verdict is not Verdict.DENY:
            part, decision, reason = judge.tightened(tool, value, (part, decision))
        always = (tool,) if not self._options.hardened or path is None else (exact_path(tool, path),)
        return _evaluation([(part, decision)], always, reason)

    def _line(self, judge: BetCodeJudge, command: str) -> Evaluation:
        analysis = analyse_simple(command)
        units = units_of(analysis)
        known = {unit: judge.unit(unit) for unit in dict.fromkeys(units)}  # equal units are judged once
        found = [known[unit] for unit in units]
        if not analysis.plain:
            found = [(_capped(part), decision) for part, decision in found]
        if not found:
            found = [_empty(judge, command, analysis)]
        always: tuple[str, ...] = (BASH,)
        if self._options.hardened:
            texts = [unit.text for unit in units if isinstance(unit, CommandUnit)] if analysis.plain else []
            always = tuple(dict.fromkeys(f"{BASH}({text})" for text in texts if "*" not in text))
        faithful = _evaluation(found, always, None if analysis.plain else analysis.reason)
        if not self._options.hardened:
            return faithful
        return hardened(command, faithful, BetCodeCommands(judge), judge.matching.base, analysis)

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether a grant turns a part that was recorded as ask into an allow."""
        rule = grant_rule(grant)
        if not part.liftable or part.verdict is not Verdict.ASK or rule.action is not Verdict.ALLOW:
            return False
        matching = Matching(self._options)
        if permission == BASH:
            analysis = lex(part.text)
            one = analysis.plain and len(analysis.commands) == 1
            return one and matching.allows_command(rule, analysis.commands[0])
        if is_path_tool(permission):
            return matching.file_tool(rule, permission, part.text if part.text.startswith("/") else None)
        return rule.specifier is None and names(rule, permission)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that are denied for every input: by a whole-tool rule that no narrower rule may lift."""
        return frozenset(tool for tool in tools if self._is_disabled(tool))

    def _is_disabled(self, tool: str) -> bool:
        whole = decide(self._rules, lambda rule: rule.specifier is None and names(rule, tool))
        if whole is None or whole.verdict is not Verdict.DENY:
            return False
        scoped = [rule for rule in self._rules if rule.specifier is not None and rule.tool == tool]
        return all(rule.action is Verdict.DENY for rule in scoped)


def _capped(part: Part) -> Part:
    """Return a part with a verdict of at least ask, for a line of more than literal words; no grant lifts it."""
    if part.verdict is Verdict.DENY:
        return part
    if part.verdict is Verdict.ALLOW:
        return Part(part.text, Verdict.ASK, liftable=False)
    return replace(part, liftable=False)


def _empty(judge: BetCodeJudge, command: str, analysis: Analysis) -> tuple[Part, TierDecision | None]:
    """Judge a line in which no command was found: it is empty (a comment), or unreadable."""
    part, decision = judge.tool(BASH, None, None)
    text = " ".join(command.split())
    if analysis.plain or part.verdict is not Verdict.ALLOW:
        return replace(part, text=text), decision
    return Part(text, Verdict.ASK, liftable=False), None


def _evaluation(
    found: Sequence[tuple[Part, TierDecision | None]], always: tuple[str, ...], reason: str | None = None
) -> Evaluation:
    parts = [part for part, _ in found]
    verdict = strictest(part.verdict for part in parts)
    message = f"Denied by rule: {_first_deny(found).text}" if verdict is Verdict.DENY else None
    return evaluated(parts, verdict, message=message, reason=reason if verdict is Verdict.ASK else None, always=always)


def _first_deny(found: Sequence[tuple[Part, TierDecision | None]]) -> RuleRef:
    """Return the first deny, in file order, of those that decided about a unit."""
    denying = [rule for part, decision in found if decision and part.verdict is Verdict.DENY for rule in decision.rules]
    return min(denying, key=lambda rule: (rule.rank, rule.order)).ref


# --- the object of the dialect
class _Notation(ToolRuleNotation):
    def as_wildcard(self, rule: ListedRule) -> str:
        """Return a wildcard; a deny or ask for `git push` matches every command that begins with its words."""
        text = super().as_wildcard(rule)
        return text if rule.action is Verdict.ALLOW or has_wildcard(text) else f"{text} *"

    def decides_before(self, first: ListedRule, second: ListedRule) -> bool | None:
        if (first.pattern == WHOLE) is (second.pattern == WHOLE):
            return None
        wide, narrow = (second, first) if second.pattern == WHOLE else (first, second)
        return (wide is first) is _outranks(wide, narrow)


class _Answers(AnswerEffects, frozen=True):
    def extending(self, source: PolicySource) -> Extending:
        """Return that nothing moves the 60 seconds in profile `faithful` (betcode.md, Permission Timeout Handling)."""
        return "never" if source.options.get("profile") == FAITHFUL else "automatic"


class BetCodeDialect(ToolRuleDialect):
    """BetCode's Permission Bridge (betcode.md)."""

    name = "betcode"
    language = replace(
        TOOL_RULES,
        options=OPTIONS,
        members=("allow", "ask", "deny", "final"),
        rule_files=("betcode.json",),
        keeping_a_deny="mark the deny as `final`",
    )
    notation = _Notation()
    answers = _Answers(cascade_reject="none", always_scope="session")

    def compile(self, source: PolicySource) -> Policy:
        return BetCodePolicy(source)


def _outranks(wide: ListedRule, narrow: ListedRule) -> bool:
    """Return whether a wide rule holds against a narrow one: it is stricter, and final or of a higher layer."""
    stricter = strictest((wide.action, narrow.action)) is not narrow.action
    return stricter and (wide.final or wide.rank > narrow.rank)
