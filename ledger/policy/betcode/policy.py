"""The dialect `betcode`: a call is split into units, and the strictest verdict on a unit counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ledger.core.events import Extending
from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, RuleRef, Verdict, strictest
from ledger.policy.betcode.judge import BetCodeCommands, BetCodeJudge, BetCodeRules
from ledger.policy.betcode.match import CommandUnit, Matching, TierDecision, decide, names, units_of
from ledger.policy.dialect import FAITHFUL, AnswerEffects
from ledger.policy.evaluations import evaluated, joined_calls
from ledger.policy.facts import FileFacts
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.shell.analyse import analyse_simple
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Analysis
from ledger.policy.toolrules.commands import BASH, command_of, has_wildcard, inputs_of
from ledger.policy.toolrules.dialect import TOOL_RULES, ToolRuleDialect, ToolRuleNotation
from ledger.policy.toolrules.grants import GrantedRules, grant_rule
from ledger.policy.toolrules.paths import absolute, exact_path, is_path_tool, path_of
from ledger.policy.toolrules.policy import ToolRulePolicy
from ledger.policy.unknown import readable_evaluation

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
            return Evaluation(Verdict.ALLOW, reason="the call names no pattern, so there is nothing to judge")
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


# --- the object of the dialect ----------------------------------------------------------------------------------------


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
