"""The dialect `claude`: deny, then ask, then allow, over all layers together; every tool but Bash is judged here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Layer, Part, Policy, PolicySource, RuleRef, Verdict
from ledger.policy.claude.commands import ClaudeCommands, ClaudePlaces
from ledger.policy.claude.lines import behind_wrappers, hardened_proposals, judge_line
from ledger.policy.evaluations import NO_PATTERN, joined_calls
from ledger.policy.inputs import command_of
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.model import Access, Analysis
from ledger.policy.spelled import readable_evaluation
from ledger.policy.toolrules.commands import (
    BASH,
    SUBAGENTS,
    UNREADABLE,
    WEB_FETCH,
    GrantedRules,
    address_of,
    glob_takes,
    grant_rule,
    host_of,
    inputs_of,
    is_unreadable,
    specifier_matches,
    texts_of,
)
from ledger.policy.toolrules.dialect import TOOL_RULES, ToolRuleDialect, ToolRuleNotation
from ledger.policy.toolrules.paths import (
    ACCESS_RULE,
    RESTRICTED_FILE,
    access_of,
    accesses_of,
    files_of,
    governs,
    is_path_tool,
    path_of,
)
from ledger.policy.toolrules.rule import (
    MCP,
    ToolRule,
    ToolRuleOptions,
    ToolRulePolicy,
    load_settings,
    names,
    names_tool,
    parse_rule,
    settings_files,
)

UNASKED: Final = frozenset({
    "Agent", "Task", "TodoWrite", "TodoRead", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TaskOutput",
    "TaskStop", "EnterPlanMode", "ToolSearch", "BashOutput", "KillShell", "KillBash", "ListMcpResourcesTool",
    "ReadMcpResourceTool",
})  # fmt: skip
"""Tools that run without asking if no rule matches."""

DOCUMENTATION: Final = frozenset({
    "agentskills.io", "angular.io", "asp.net", "bun.sh", "cloud.google.com", "code.claude.com", "cypress.io",
    "d3js.org", "dev.mysql.com", "devcenter.heroku.com", "developer.android.com", "developer.apple.com",
    "developer.mozilla.org", "doc.rust-lang.org", "docs.aws.amazon.com", "docs.djangoproject.com",
    "docs.netlify.com", "docs.oracle.com", "docs.python.org", "docs.spring.io", "docs.unrealengine.com",
    "dotnet.microsoft.com", "en.cppreference.com", "expressjs.com", "fastapi.tiangolo.com",
    "flask.palletsprojects.com", "getbootstrap.com", "git-scm.com", "go.dev", "gradle.org", "graphql.org",
    "hibernate.org", "httpd.apache.org", "jestjs.io", "jupyter.org", "kotlinlang.org", "kubernetes.io",
    "laravel.com", "learn.microsoft.com", "matplotlib.org", "maven.apache.org", "modelcontextprotocol.io",
    "nextjs.org", "nginx.org", "nodejs.org", "numpy.org", "pandas.pydata.org", "pkg.go.dev", "platform.claude.com",
    "prisma.io", "pytorch.org", "react.dev", "reactnative.dev", "redis.io", "redux.js.org",
    "requests.readthedocs.io", "ruby-doc.org", "scikit-learn.org", "symfony.com", "tailwindcss.com", "threejs.org",
    "vuejs.org", "webpack.js.org", "www.mongodb.com", "www.php.net", "www.postgresql.org", "www.sqlite.org",
    "www.tensorflow.org", "www.terraform.io", "www.typescriptlang.org",
})  # fmt: skip
"""Documentation sites that WebFetch reads without asking, as far as Claude Code's list was measured."""

_SETTINGS: Final = {
    "user": "userSettings", "project": "projectSettings", "local": "localSettings", "flag": "flagSettings",
    "managed": "policySettings",
}  # fmt: skip
DENIED_FILE: Final = "File is in a directory that is denied by your permission settings."


class ToolVerdict(msgspec.Struct, frozen=True):
    """A verdict on a call of one part, with the message of a deny and the proposed rules."""

    verdict: Verdict
    rules: tuple[RuleRef, ...] = ()
    message: str | None = None
    reason: str | None = None
    proposals: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    liftable: bool = False


def whole_tool(rules: Sequence[ToolRule], action: Verdict, tool: str) -> tuple[RuleRef, ...]:
    """Return the rules of one action for a whole tool.

    An allow with `*` counts only behind the literal name of a server.
    """
    return tuple(rule.ref for rule in rules if rule.specifier is None and rule.action is action and names(rule, tool))


def has_member(specifier: str, value: Mapping[str, Any]) -> bool:
    """Match `member:glob` with an input, except members that have canonical rules of their own (a command, a path)."""
    member, colon, wanted = specifier.partition(":")
    if not colon or member not in value or member in ("command", "file_path", "notebook_path", "path", "url"):
        return False
    return glob_takes(wanted, value[member])


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
            return Evaluation(Verdict.ALLOW, reason=NO_PATTERN)
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
    def __init__(self, rules: Sequence[ToolRule], granted: GrantedRules, options: ToolRuleOptions) -> None:
        self.rules, self.options = rules, options
        self.places = ClaudePlaces(options, rules)
        self.granted = granted

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
        found = self._tool(tool, value, path)
        may_name_files = is_path_tool(tool) or (tool not in UNASKED and self.places.guards())
        if self.options.hardened and found.verdict is not Verdict.DENY and may_name_files:
            found = self._tightened(found, tool, value)
        return self._moded(_single(path or tool, found), tool, by_rule=bool(found.rules))

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
            return self._moded(whole, BASH, by_rule=True)
        by_rule = any(part.verdict is Verdict.ASK and part.rules for part in found.parts)
        return self._moded(found, BASH, by_rule=by_rule or "removing" in (found.reason or ""))

    def _moded(self, found: Evaluation, tool: str, *, by_rule: bool) -> Evaluation:
        """Return the evaluation with an ask replaced as the mode demands."""
        if found.verdict is not Verdict.ASK:
            return found
        if self.options.mode == "dontAsk":
            return replace(_with_parts(found, Verdict.DENY), message=_DONT_ASK.format(tool))
        if self.options.mode == "bypassPermissions" and not by_rule:
            return replace(_with_parts(found, Verdict.ALLOW), reason="permissions are bypassed")
        return found

    # --- tools other than Bash
    def _tool(self, tool: str, value: Any, path: str | None) -> ToolVerdict:
        """Judge a call of any tool except Bash."""
        denied = whole_tool(self.rules, Verdict.DENY, tool)
        if denied:
            return ToolVerdict(Verdict.DENY, denied, f"No such tool available: {tool}")
        if is_path_tool(tool):
            return self._file(tool, path)
        return self._scoped(tool, value)

    # --- files
    def _file(self, tool: str, path: str | None) -> ToolVerdict:
        access = access_of(tool)
        if path is None:
            return self._rest(tool, (), asks=True)
        denied = self.places.reaching(Verdict.DENY, access, path)
        if denied:
            verb = "edit" if access is Access.EDIT else "read"
            literal = any(written for _, written in denied)
            message = DENIED_FILE if literal else f"Permission to {verb} {path} has been denied."
            return ToolVerdict(Verdict.DENY, tuple(rule.ref for rule, _ in denied), message)
        asked = whole_tool(self.rules, Verdict.ASK, tool)
        asked += tuple(rule.ref for rule, _ in self.places.reaching(Verdict.ASK, access, path))
        if asked:
            return ToolVerdict(Verdict.ASK, asked, reason="a rule asks")
        if access is Access.EDIT:
            return self._edit(tool, path)
        allowed = whole_tool(self.rules, Verdict.ALLOW, tool) or _refs(self.places.allowing(Access.READ, path))
        if allowed or self.places.inside(path):
            return ToolVerdict(Verdict.ALLOW, allowed)
        return self._rest(tool, (), asks=True, path=path)

    def _edit(self, tool: str, path: str) -> ToolVerdict:
        if self.places.protected(path):
            return ToolVerdict(
                Verdict.ASK, reason=f"`{path}` is protected: it can make later commands do something else"
            )
        if self.options.mode == "plan":
            return ToolVerdict(Verdict.ASK, reason="plan mode changes no files")
        allowed = whole_tool(self.rules, Verdict.ALLOW, tool) or _refs(self.places.allowing(Access.EDIT, path))
        if allowed or (self.options.mode == "acceptEdits" and self.places.inside(path)):
            return ToolVerdict(Verdict.ALLOW, allowed)
        return self._rest(tool, (), asks=True, path=path)

    # --- everything else
    def _scoped(self, tool: str, value: Any) -> ToolVerdict:
        for action in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
            whole = whole_tool(self.rules, action, tool)
            found = whole + tuple(
                rule.ref
                for rule in self.rules
                if rule.action is action and specifier_matches(rule, tool, value, has_member)
            )
            if action is Verdict.ALLOW and tool == WEB_FETCH and is_unreadable(value, self.rules):
                return ToolVerdict(Verdict.ASK, reason=UNREADABLE)
            if not found or (action is Verdict.ASK and tool in SUBAGENTS and not whole):
                continue
            message = self._message(tool, value, found) if action is Verdict.DENY else None
            proposals = self._proposals(tool, value) if action is Verdict.ASK and tool == WEB_FETCH else ()
            return ToolVerdict(action, found, message, "a rule asks" if action is Verdict.ASK else None, proposals)
        asks = tool not in UNASKED and not (tool == WEB_FETCH and host_of(value) in DOCUMENTATION)
        return self._rest(tool, self._proposals(tool, value), asks=asks, value=value)

    def _message(self, tool: str, value: Any, rules: tuple[RuleRef, ...]) -> str:
        if tool == WEB_FETCH:
            return f"WebFetch denied access to domain:{host_of(value) or ', '.join(sorted(address_of(value).hosts))}."
        _, specifier = parse_rule(rules[0].text)
        if specifier is not None and tool in SUBAGENTS and ":" not in specifier:
            settings = _SETTINGS.get(rules[0].layer or "", "projectSettings")
            return f"Agent type '{specifier}' has been denied by permission rule 'Agent({specifier})' from {settings}."
        if specifier is not None:
            return f"Permission to use {tool} with {specifier} has been denied."
        return f"Permission to use {tool} has been denied."

    def _proposals(self, tool: str, value: Any) -> tuple[str, ...]:
        if tool == WEB_FETCH:
            host = host_of(value)
            return (f"{WEB_FETCH}(domain:{host})",) if host else ()
        return (tool,) if tool.startswith(MCP) or tool not in UNASKED else ()

    def _rest(
        self, tool: str, proposals: tuple[str, ...], *, asks: bool, path: str | None = None, value: Any = None
    ) -> ToolVerdict:
        """Return the verdict without a rule: by a grant, or the tool's default."""

        def covers(rule: ToolRule) -> bool:
            if rule.specifier is None:
                return names_tool(rule.tool, tool)
            return specifier_matches(rule, tool, value, has_member) or (
                path is not None and governs(rule.tool, tool) and self.places.covers(rule, path)
            )

        known = self.granted.about(*texts_of(tool, value, path))
        chosen = [(grant_id, rule) for grant_id, rule in known if covers(rule)]
        if any(rule.action is Verdict.DENY for _, rule in chosen):
            refs = tuple(rule.ref for _, rule in chosen if rule.action is Verdict.DENY)
            return ToolVerdict(Verdict.DENY, refs, f"Permission to use {tool} has been denied.")
        if chosen:
            return ToolVerdict(
                Verdict.ALLOW, grants=tuple(grant_id for grant_id, _ in chosen), reason="allowed by a grant in force"
            )
        if not asks:
            return ToolVerdict(Verdict.ALLOW, proposals=proposals)
        return ToolVerdict(
            Verdict.ASK, reason="no rule matches, and the default is ask", proposals=proposals, liftable=True
        )


def _with_parts(found: Evaluation, verdict: Verdict) -> Evaluation:
    parts = tuple(
        replace(part, verdict=verdict, liftable=False) if part.verdict is Verdict.ASK else part for part in found.parts
    )
    return replace(found, verdict=verdict, parts=parts)


def _single(text: str, found: ToolVerdict) -> Evaluation:
    part = Part(text, found.verdict, found.rules, found.liftable, found.grants)
    return Evaluation(found.verdict, (part,), found.rules, found.message, found.reason, found.proposals)


class _Notation(ToolRuleNotation):
    def path_tool(self, tool: str) -> str:
        return ACCESS_RULE[access_of(tool)]


class ClaudeDialect(ToolRuleDialect):
    """Claude Code."""

    name = "claude"
    language = replace(
        TOOL_RULES,
        options=OPTIONS,
        members=("allow", "ask", "deny", "additionalDirectories", "defaultMode", "disableBypassPermissionsMode"),
        asks_about="whatever does more than look",
        suggested_layer="local",
    )
    notation = _Notation()

    def compile(self, source: PolicySource) -> Policy:
        return ClaudePolicy(source)

    def searched(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Path, ...]:
        return tuple(path for _, path in settings_files(project, home=home))

    def find(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Layer, ...]:
        return load_settings(project, home=home)
