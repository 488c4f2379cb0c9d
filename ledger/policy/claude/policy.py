"""The policy of the dialect `claude`: deny, then ask, then allow, over all layers together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Part, RuleRef, Verdict
from ledger.policy.claude.commands import ClaudeCommands
from ledger.policy.claude.lines import behind_wrappers, hardened_proposals, judge_line
from ledger.policy.claude.places import ClaudePlaces
from ledger.policy.claude.tools import DENIED_FILE, UNASKED, Tools, ToolVerdict, has_member, whole_tool
from ledger.policy.evaluations import joined_calls
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.model import Analysis
from ledger.policy.toolrules.commands import BASH, command_of, inputs_of
from ledger.policy.toolrules.grants import GrantedRules, grant_rule
from ledger.policy.toolrules.paths import RESTRICTED_FILE, accesses_of, files_of, governs, is_path_tool, path_of
from ledger.policy.toolrules.policy import ToolRuleOptions, ToolRulePolicy
from ledger.policy.toolrules.rule import ToolRule, parse_rule
from ledger.policy.unknown import readable_evaluation

OPTIONS: Final = ("profile", "cwd", "home", "mode", "fs")
_DONT_ASK: Final = "Permission to use {} has been denied because Claude Code is running in don't ask mode."


class ClaudePolicy(ToolRulePolicy):
    """Settings of Claude Code, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `cwd` (the project; a call's own `cwd` is the root of
    its paths), `home`, `mode` (`default`, `acceptEdits`, `plan`, `dontAsk`, `bypassPermissions`) and `fs` (facts about
    files, see `MappedFacts`). Layers are called `user`, `project`, `local`, `flag` and `managed`; the name sets the
    root of `/path`. Raises PolicyError for any other option and for anything malformed.
    """

    dialect = "claude"
    options = OPTIONS

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge a call as Claude Code does; in the hardened profile also by the shell analysis."""
        tool, inputs = inputs_of(call)
        if not inputs:
            return Evaluation(Verdict.ALLOW, reason="the call names no pattern, so there is nothing to judge")
        judge = _Judge(self._rules, GrantedRules(grants), self._options.at(call.cwd))
        found = [judge.call(tool, value) for value in inputs]
        return readable_evaluation(joined_calls(found))

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether a grant turns a part that was recorded as ask into an allow."""
        rule = grant_rule(grant)
        if not part.liftable or part.verdict is not Verdict.ASK or rule.action is not Verdict.ALLOW:
            return False
        if rule.specifier is None:
            return bool(whole_tool([rule], Verdict.ALLOW, permission))
        if permission == BASH and rule.tool == BASH:
            line = analyse(part.text)
            rules = ClaudeCommands((rule,), GrantedRules(), ClaudePlaces(self._options, ()), "default")
            return len(line.top) == 1 and any(rules.allow_by_rule(one) for one in behind_wrappers(line.top[0]))
        if is_path_tool(permission):
            return governs(rule.tool, permission) and _covers(ClaudePlaces(self._options, ()), rule, part.text)
        return False

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that a deny rule without a specifier removes."""
        return frozenset(tool for tool in tools if whole_tool(self._rules, Verdict.DENY, tool))


def _refs(rules: Iterable[ToolRule]) -> tuple[RuleRef, ...]:
    return tuple(rule.ref for rule in rules)


def _covers(places: ClaudePlaces, rule: ToolRule, text: str) -> bool:
    return places.covers(rule, places.absolute(text))


class _Judge:
    """The rules and one call's grants."""

    def __init__(self, rules: Sequence[ToolRule], granted: GrantedRules, options: ToolRuleOptions) -> None:
        self.rules, self.options = rules, options
        self.places = ClaudePlaces(options, rules)
        self.granted = granted
        self.tools = Tools(rules, granted, self.places, options.mode)

    def call(self, tool: str, value: Any) -> Evaluation:
        command = command_of(value) if tool == BASH else None
        if command is None:
            return self._other(tool, value)
        denied = whole_tool(self.rules, Verdict.DENY, BASH)
        if denied:
            return _single(command.strip(), ToolVerdict(Verdict.DENY, denied, f"No such tool available: {BASH}"))
        member = self._members(Verdict.DENY, value)
        if member:
            message = f"Permission to use {BASH} with {parse_rule(member[0].text)[1]} has been denied."
            return _single(command.strip(), ToolVerdict(Verdict.DENY, member, message))
        rules = ClaudeCommands(self.rules, self.granted, self.places, self.options.mode)
        asked = whole_tool(self.rules, Verdict.ASK, BASH) + self._members(Verdict.ASK, value)
        analysis = analyse(command)
        faithful = self._line(rules, command, analysis, asked)
        if not self.options.hardened:
            return faithful
        faithful = replace(faithful, always=hardened_proposals(faithful.always))
        return hardened(command, faithful, rules, self.places.base, analysis)

    def _members(self, action: Verdict, value: Mapping[str, Any]) -> tuple[RuleRef, ...]:
        """Return the rules about another member of the input than the command: `Bash(run_in_background:true)`."""
        return tuple(
            rule.ref
            for rule in self.rules
            if rule.tool == BASH and rule.action is action and rule.specifier and has_member(rule.specifier, value)
        )

    def _other(self, tool: str, value: Any) -> Evaluation:
        written = path_of(tool, value, self.places.base) if is_path_tool(tool) else None
        path = None if written is None else self.places.absolute(written)
        found = self.tools.judge(tool, value, path)
        may_name_files = is_path_tool(tool) or (tool not in UNASKED and self.places.guards())
        if self.options.hardened and found.verdict is not Verdict.DENY and may_name_files:
            found = self._tightened(found, tool, value)
        return _single(path or tool, _in_mode(found, self.options.mode, tool))

    def _tightened(self, found: ToolVerdict, tool: str, value: Any) -> ToolVerdict:
        """Return the stricter of a verdict and the rules on every file that the input may lead to."""
        places, kinds = self.places, accesses_of(tool)
        files = files_of(tool, value, places.base, places.home, places.facts)
        if denied := places.restricting(Verdict.DENY, kinds[0], files.paths):
            return ToolVerdict(Verdict.DENY, _refs(denied), DENIED_FILE)
        asked = places.restricting(Verdict.ASK, kinds[0], files.paths)
        for action in (Verdict.DENY, Verdict.ASK):
            asked += tuple(rule for access in kinds for rule in places.naming(action, access, files.globs))
        if asked and found.verdict is Verdict.ALLOW:
            return ToolVerdict(Verdict.ASK, _refs(asked), reason=RESTRICTED_FILE)
        if files.reason is not None and found.verdict is Verdict.ALLOW:
            return ToolVerdict(Verdict.ASK, reason=files.reason)
        return found

    def _line(self, rules: ClaudeCommands, command: str, analysis: Analysis, asked: tuple[RuleRef, ...]) -> Evaluation:
        found = judge_line(rules, command, analysis)
        if asked and found.verdict is not Verdict.DENY:
            whole = _single(command.strip(), ToolVerdict(Verdict.ASK, asked, reason="a rule asks"))
            return self._moded(whole, by_rule=True)
        by_rule = any(part.verdict is Verdict.ASK and part.rules for part in found.parts)
        return self._moded(found, by_rule=by_rule or "removing" in (found.reason or ""))

    def _moded(self, found: Evaluation, *, by_rule: bool) -> Evaluation:
        """Return the evaluation with an ask replaced as the mode demands."""
        if found.verdict is not Verdict.ASK:
            return found
        if self.options.mode == "dontAsk":
            return replace(_with_parts(found, Verdict.DENY), message=_DONT_ASK.format(BASH))
        if self.options.mode == "bypassPermissions" and not by_rule:
            return replace(_with_parts(found, Verdict.ALLOW), reason="permissions are bypassed")
        return found


def _with_parts(found: Evaluation, verdict: Verdict) -> Evaluation:
    parts = tuple(
        replace(part, verdict=verdict, liftable=False) if part.verdict is Verdict.ASK else part for part in found.parts
    )
    return replace(found, verdict=verdict, parts=parts)


def _in_mode(found: ToolVerdict, mode: str, tool: str) -> ToolVerdict:
    if found.verdict is Verdict.ASK and mode == "dontAsk":
        return replace(found, verdict=Verdict.DENY, message=_DONT_ASK.format(tool), liftable=False)
    if found.verdict is Verdict.ASK and mode == "bypassPermissions" and not found.rules:
        return replace(found, verdict=Verdict.ALLOW, reason="permissions are bypassed", liftable=False)
    return found


def _single(text: str, found: ToolVerdict) -> Evaluation:
    part = Part(text, found.verdict, found.rules, found.liftable, found.grants)
    return Evaluation(found.verdict, (part,), found.rules, found.message, found.reason, found.proposals)
