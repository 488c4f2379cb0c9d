"""The policy of the dialect `codelia` (codelia.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Part, PolicySource, Verdict
from ledger.policy.codelia.confirm import ConfirmRequest, confirm_request
from ledger.policy.codelia.judge import CodeliaCommands, CodeliaJudge, CodeliaVerdict
from ledger.policy.codelia.options import CodeliaOptions, read_codelia_options, system_layer
from ledger.policy.codelia.remember import line_rules, plain_line_rules, tool_rules
from ledger.policy.codelia.rule import (
    SHELL,
    SKILL,
    RememberedRules,
    Ruleset,
    canonical,
    granted_rule,
    indexed,
    matches_text,
    matches_tool,
    read_layers,
    rule_text,
)
from ledger.policy.codelia.text import split
from ledger.policy.evaluations import evaluated, joined_calls
from ledger.policy.facts import FileFacts
from ledger.policy.shell import Analysis
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.unwrap import peeled

UNATTENDED = "UI confirm not supported"
"""Reason for a deny instead of an ask where no confirm dialog is possible (codelia.md 8)."""

SEGMENTS_MAX = 5_000
"""Commands of a line, at most, for the hardened analysis; a longer line is denied as Codelia denies it, or asked."""


class CodeliaPolicy:
    """Rules of Codelia, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `cwd` (the start directory of commands; a call's own
    takes precedence), `sandbox_root` (the folder that `cd` must not leave; without it every `cd` is asked), `fs` (facts
    about files, see `MappedFacts`), `defaults` (true adds the built-in allow rules below all layers), `edition` (whose
    built-in rules: `codelia.md` or `current`), `supports_confirm` (false turns every ask into a deny), `home` (accepted
    for uniformity with other dialects). Raises PolicyError for any other option and for anything malformed; in the
    hardened profile also for a rule that Codelia would read differently than it is written.
    """

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        self._source = source
        self._options = read_codelia_options(source.options, facts)
        built_in = (system_layer(self._options.edition),) if self._options.defaults else ()
        self._rules = read_layers((*built_in, *source.layers), strict=self._options.hardened)
        self._index = indexed(self._rules)

    @property
    def source(self) -> PolicySource:
        return self._source

    @property
    def options(self) -> CodeliaOptions:
        return self._options

    @property
    def rules(self) -> Ruleset:
        """Return the rules in force, lowest layer first."""
        return self._rules

    def with_facts(self, facts: FileFacts) -> CodeliaPolicy:
        """Return the same policy with other facts about files; `fs` of the source takes precedence."""
        return CodeliaPolicy(self._source, facts)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge a call: deny, then allow, else confirm (codelia.md 5); grants are allow rules after all others.

        `always` holds the rules that a "remember" would store, each as one line of JSON.
        """
        tool, inputs = _inputs_of(call)
        if not inputs:
            return Evaluation(Verdict.ALLOW, reason="the call names no pattern, so there is nothing to judge")
        judge = self._judge(call, grants)
        found = [self._evaluate(judge, tool, value) for value in inputs]
        evaluation = joined_calls(found)
        if evaluation.verdict is Verdict.ASK and not self._options.supports_confirm:
            return _refused(evaluation)
        return evaluation

    def confirm_request(self, call: Call, grants: Sequence[Grant] = ()) -> ConfirmRequest:
        """Return the confirm request for a call (codelia.md 8). Any call may be given."""
        tool, inputs = _inputs_of(call)
        return confirm_request(tool, inputs[0] if inputs else call.input, self.evaluate(call, grants))

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether a grant turns a part that was recorded as ask into an allow."""
        rule = granted_rule(grant.permission, grant.pattern)
        if rule is None or not part.liftable or part.verdict is not Verdict.ASK:
            return False
        tool = canonical(permission)
        if tool != SHELL:
            return matches_tool(rule, tool, part.text if tool == SKILL else None)
        if not self._options.hardened:
            return matches_text(rule, part.text)
        analysis = lex(part.text)
        if not analysis.plain or len(analysis.commands) != 1:
            return False
        judge = CodeliaJudge(indexed(Ruleset()), self._options, self._options.cwd, RememberedRules((grant,)))
        return CodeliaCommands(judge).allow(peeled(analysis.commands[0])) is not None

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that a deny rule names without any condition."""
        whole = {rule.tool for rule in self._rules.deny if rule.whole}
        return frozenset(tool for tool in tools if canonical(tool) in whole)

    def _judge(self, call: Call, grants: Sequence[Grant]) -> CodeliaJudge:
        return CodeliaJudge(self._index, self._options, call.cwd or self._options.cwd, RememberedRules(grants))

    def _evaluate(self, judge: CodeliaJudge, tool: str, value: Any) -> Evaluation:
        if tool != SHELL:
            always = tool_rules(tool, value, judge)
            return _evaluation(judge.tool(tool, value), tuple(map(rule_text, always)))
        command = _command_of(value) or ""
        line = split(command)
        judged = judge.line(line)
        if not self._options.hardened:
            return _evaluation(judged, tuple(map(rule_text, line_rules(line, judge))))
        return self._hardened(judge, command, line.text, judged)

    def _hardened(self, judge: CodeliaJudge, command: str, text: str, judged: CodeliaVerdict) -> Evaluation:
        if len(judged.parts) > SEGMENTS_MAX:
            analysis = Analysis(plain=False, reason=f"the line holds more than {SEGMENTS_MAX:,} commands", commands=())
        else:
            analysis = analyse(command)
        # An allowed line may hold commands that no rule names; what the analysis makes stricter, no rule lifts.
        asks = judged.verdict is not Verdict.ALLOW
        always = tuple(map(rule_text, plain_line_rules(analysis, judge))) if asks else ()
        # Equal parts are merged: a line of thousands of equal commands is judged in linear time.
        faithful = _evaluation(judged._replace(parts=tuple(dict.fromkeys(judged.parts))), always)
        return hardened(command, faithful, CodeliaCommands(judge, text), judge.cwd, analysis)


def _inputs_of(call: Call) -> tuple[str, list[Any]]:
    """Return the tool and each input to judge; a permission with patterns has one input per pattern."""
    if call.tool_name is not None:
        return canonical(call.tool_name), [call.input]
    tool = canonical(call.permission)
    member = {SHELL: "command", SKILL: "name"}.get(tool, "pattern")
    return tool, [{member: pattern} for pattern in call.patterns]


def _command_of(value: Any) -> str | None:
    command = value.get("command") if isinstance(value, dict) else None
    return command if isinstance(command, str) else None


def _evaluation(judged: CodeliaVerdict, always: tuple[str, ...]) -> Evaluation:
    message = None
    if judged.verdict is Verdict.DENY:
        message = f"{'Denied by rule' if judged.stricter else 'Permission denied'}: {judged.reason}"
    return evaluated(judged.parts, judged.verdict, message=message, reason=judged.reason, always=always)


def _refused(evaluation: Evaluation) -> Evaluation:
    """Return an evaluation with every ask turned into a deny, as no confirm is possible; liftable stays liftable."""
    parts = tuple(
        replace(part, verdict=Verdict.DENY) if part.verdict is Verdict.ASK else part for part in evaluation.parts
    )
    message = f"Permission denied: {UNATTENDED}"
    return replace(evaluation, verdict=Verdict.DENY, parts=parts, rules=(), message=message, reason=UNATTENDED)
