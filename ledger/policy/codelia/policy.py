"""The policy of the dialect `codelia` (codelia.md), and the rules that a "remember" stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Call, Evaluation, Grant, Part, PolicySource, Verdict
from ledger.policy.codelia.confirm import ConfirmRequest, confirm_request
from ledger.policy.codelia.judge import (
    CodeliaCommands,
    CodeliaJudge,
    CodeliaOptions,
    CodeliaVerdict,
    read_codelia_options,
    system_layer,
)
from ledger.policy.codelia.rule import (
    SHELL,
    SKILL,
    CodeliaLine,
    CodeliaRule,
    RememberedRules,
    Ruleset,
    canonical,
    granted_rule,
    indexed,
    is_cd,
    matches_text,
    matches_tool,
    normalise,
    read_layers,
    rule_text,
    skill_name,
    skills_of,
    split,
    words_of,
)
from ledger.policy.evaluations import NO_PATTERN, CompiledPolicy, evaluated, joined_calls
from ledger.policy.facts import FileFacts
from ledger.policy.inputs import command_of
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.danger import never_allowed
from ledger.policy.shell.forms.objections import worry
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Analysis
from ledger.policy.shell.names import basename
from ledger.policy.shell.unwrap import peeled

UNATTENDED = "UI confirm not supported"
"""Reason for a deny instead of an ask where no confirm dialog is possible (codelia.md 8)."""

SEGMENTS_MAX = 5_000
"""Commands of a line, at most, for the hardened analysis; a longer line is denied as Codelia denies it, or asked."""


class CodeliaPolicy(CompiledPolicy):
    """Rules of Codelia, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `cwd` (the start directory of commands; a call's own
    takes precedence), `sandbox_root` (the folder that `cd` must not leave; without it every `cd` is asked), `fs` (facts
    about files, see `MappedFacts`), `defaults` (true adds the built-in allow rules below all layers), `edition` (whose
    built-in rules: `codelia.md` or `current`), `supports_confirm` (false turns every ask into a deny), `home` (accepted
    for uniformity with other dialects). Raises PolicyError for any other option and for anything malformed; in the
    hardened profile also for a rule that Codelia would read differently than it is written.
    """

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        super().__init__(source)
        self._options = read_codelia_options(source.options, facts)
        built_in = (system_layer(self._options.edition),) if self._options.defaults else ()
        self._rules = read_layers((*built_in, *source.layers), strict=self._options.hardened)
        self._index = indexed(self._rules)

    @property
    def options(self) -> CodeliaOptions:
        return self._options

    @property
    def rules(self) -> Ruleset:
        """Return the rules in force, lowest layer first."""
        return self._rules

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge a call: deny, then allow, else confirm (codelia.md 5); grants are allow rules after all others.

        `always` holds the rules that a "remember" would store, each as one line of JSON.
        """
        tool, inputs = _inputs_of(call)
        if not inputs:
            return Evaluation(Verdict.ALLOW, reason=NO_PATTERN)
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
        command = command_of(value) or ""
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


RuleObject = dict[str, str]
"""A rule as written in a configuration: `tool`, then `command` or `skill_name` if it has one."""

SUBCOMMAND_PROGRAMS: Final = frozenset("git jj bun bunx npx npm pnpm yarn cargo go docker kubectl gh".split())  # noqa: SIM905
"""Programs of which two words are remembered."""

WRAPPERS: Final = frozenset("env command builtin nohup time sudo nice ionice chrt timeout stdbuf".split())  # noqa: SIM905
"""Programs that only run another program; Codelia remembers nothing for them."""

_PROGRAM = late_pattern(r"[A-Za-z0-9._+@:-]+")
_SUBCOMMAND = late_pattern(r"[A-Za-z][A-Za-z0-9:_-]*")


def line_rules(line: CodeliaLine, judge: CodeliaJudge) -> tuple[RuleObject, ...]:
    """Return one rule for each segment that is asked about, without repeats and without allowed ones."""
    texts = dict.fromkeys(segment.text for segment in line.segments if not is_cd(segment.text))
    heads = map(_head, texts)
    return tuple(_new((head for head in heads if head is not None), judge))


def plain_line_rules(analysis: Analysis, judge: CodeliaJudge) -> tuple[RuleObject, ...]:
    """Return the rules of `line_rules` that the hardened profile would accept for this very line."""
    if not analysis.plain or analysis.flow is not None:
        return ()
    heads = []
    for command in {command.text: command for command in analysis.top}.values():
        inner = peeled(command)
        if command.name == "cd" or command.redirects or never_allowed(inner) or worry(inner):
            continue
        words = [word.raw if word.raw == word.resolved else None for word in inner.words]
        if words[0] is not None and (head := _strict_head(words[0], words[1:])):
            heads.append(head)
    return tuple(_new(heads, judge))


def tool_rules(tool: str, value: Any, judge: CodeliaJudge) -> tuple[RuleObject, ...]:
    """Return the rule for a call of another tool: its skill, or the whole tool."""
    if tool != SKILL:
        known = any(matches_tool(rule, tool, None) for rule in _allowing(judge, tool))
        return () if known else ({"tool": tool},)
    named, led = skills_of(value)
    skill = named or led
    if skill is None or (judge.options.hardened and led not in (None, skill)):
        return ()
    known = any(matches_tool(rule, tool, skill) for rule in _allowing(judge, tool, skill))
    return () if known else ({"tool": SKILL, "skill_name": skill},)


def remembered_rules(permission: str, entries: Iterable[str]) -> tuple[RuleObject, ...]:
    """Return the rules in granted entries of an `always`; an entry that is no rule object has none.

    `cd` is never remembered: its target decides, and is another place each time (codelia.md 8).
    """
    rules: list[RuleObject] = []
    for entry in entries:
        rule = granted_rule(permission, entry) if entry.startswith("{") else None
        if rule is None or rule.tool != canonical(permission) or any(is_cd(text) for text in _commands(rule)):
            continue
        rules.append(json.loads(entry))
    return tuple(rules)


def _commands(rule: CodeliaRule) -> Iterator[str]:
    if rule.words is not None:
        yield " ".join(rule.words)
    if rule.glob is not None:
        yield rule.glob


def not_allowed_yet(rules: Iterable[RuleObject], allowed: Sequence[CodeliaRule]) -> tuple[RuleObject, ...]:
    """Return the rules that no rule of `allowed` covers."""
    return tuple(rule for rule in rules if not any(_covers(other, rule) for other in allowed))


def _covers(rule: CodeliaRule, other: RuleObject) -> bool:
    tool = canonical(other["tool"])
    if tool != SHELL:
        return matches_tool(rule, tool, skill_name(other.get("skill_name")))
    if rule.whole:
        return rule.tool == SHELL
    return "command_glob" not in other and matches_text(rule, normalise(other.get("command", "")))


def _allowing(judge: CodeliaJudge, *about: str) -> Iterator[CodeliaRule]:
    yield from judge.rules.allow.rules
    yield from (rule for _, rule in judge.grants.about(*about))


def _new(heads: Iterable[str], judge: CodeliaJudge) -> Iterator[RuleObject]:
    for head in dict.fromkeys(heads):
        if not _is_allowed(head, judge):
            yield {"tool": SHELL, "command": head}


def _is_allowed(head: str, judge: CodeliaJudge) -> bool:
    def matches(rule: CodeliaRule) -> bool:
        return matches_text(rule, head)

    known = judge.rules.allow.first(head.partition(" ")[0], matches)
    return known is not None or any(matches(rule) for _, rule in judge.grants.about(head))


def _head(segment: str) -> str | None:
    """Return the first word of a segment, or the first two; None for a segment for which nothing is remembered."""
    words = words_of(segment)
    if not words:
        return None
    program = basename(words[0])
    if not _PROGRAM.fullmatch(program) or program in (".", "..") or program in WRAPPERS or " " in words[0]:
        return None
    if program in SUBCOMMAND_PROGRAMS and len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]):
        return f"{words[0]} {words[1]}"
    return words[0]


def _strict_head(program: str, rest: list[str | None]) -> str | None:
    """Return `_head` for a parsed command; None for a program with subcommands that is followed by an option."""
    if not _PROGRAM.fullmatch(basename(program)):
        return None
    if basename(program) not in SUBCOMMAND_PROGRAMS or not rest:
        return program
    second = rest[0]
    return f"{program} {second}" if second is not None and _SUBCOMMAND.fullmatch(second) else None


def same_rule(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return whether two rule objects are equal; `shell` equals `bash`."""
    return _essence(left) == _essence(right)


def _essence(rule: Mapping[str, Any]) -> list[Any]:
    tool = rule.get("tool")
    return [SHELL if tool == "shell" else tool, *(rule.get(name) for name in ("command", "command_glob", "skill_name"))]
