"""Judging of every tool except Bash as in Claude Code: files, WebFetch, MCP tools, sub-agents, the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.claude.places import ClaudePlaces
from ledger.policy.matching.wildcard import name_glob
from ledger.policy.shell.model import Access
from ledger.policy.toolrules.commands import WEB_FETCH
from ledger.policy.toolrules.domains import UNREADABLE, address_of, host_of, is_unreadable, reaches_host
from ledger.policy.toolrules.grants import GrantedRules, texts_of
from ledger.policy.toolrules.paths import access_of, governs, is_path_tool
from ledger.policy.toolrules.rule import MCP, ToolRule, may_allow, names_tool, parse_rule

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
_SUBAGENTS: Final = frozenset({"Agent", "Task"})
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
    return tuple(
        rule.ref
        for rule in rules
        if rule.specifier is None
        and rule.action is action
        and names_tool(rule.tool, tool)
        and (action is not Verdict.ALLOW or may_allow(rule.tool))
    )


class Tools:
    """Compiled rules for one working directory and mode, with one call's grants."""

    def __init__(self, rules: Sequence[ToolRule], granted: GrantedRules, places: ClaudePlaces, mode: str) -> None:
        self.rules, self.granted, self.places, self.mode = rules, granted, places, mode

    def judge(self, tool: str, value: Any, path: str | None) -> ToolVerdict:
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
        if self.mode == "plan":
            return ToolVerdict(Verdict.ASK, reason="plan mode changes no files")
        allowed = whole_tool(self.rules, Verdict.ALLOW, tool) or _refs(self.places.allowing(Access.EDIT, path))
        if allowed or (self.mode == "acceptEdits" and self.places.inside(path)):
            return ToolVerdict(Verdict.ALLOW, allowed)
        return self._rest(tool, (), asks=True, path=path)

    # --- everything else

    def _scoped(self, tool: str, value: Any) -> ToolVerdict:
        for action in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
            whole = whole_tool(self.rules, action, tool)
            found = whole + tuple(
                rule.ref for rule in self.rules if rule.action is action and self._matches(rule, tool, value)
            )
            if action is Verdict.ALLOW and tool == WEB_FETCH and is_unreadable(value, self.rules):
                return ToolVerdict(Verdict.ASK, reason=UNREADABLE)
            if not found or (action is Verdict.ASK and tool in _SUBAGENTS and not whole):
                continue
            message = self._message(tool, value, found) if action is Verdict.DENY else None
            proposals = self._proposals(tool, value) if action is Verdict.ASK and tool == WEB_FETCH else ()
            return ToolVerdict(action, found, message, "a rule asks" if action is Verdict.ASK else None, proposals)
        asks = tool not in UNASKED and not (tool == WEB_FETCH and host_of(value) in DOCUMENTATION)
        return self._rest(tool, self._proposals(tool, value), asks=asks, value=value)

    def _matches(self, rule: ToolRule, tool: str, value: Any) -> bool:
        """Return whether a specifier matches: a domain, a kind of sub-agent, or `member:glob` of the input."""
        if rule.specifier is None or (rule.tool != tool and not {rule.tool, tool} <= _SUBAGENTS):
            return False
        if tool == WEB_FETCH:
            return reaches_host(rule, address_of(value))
        if not isinstance(value, Mapping):
            return False
        if tool in _SUBAGENTS and value.get("subagent_type") == rule.specifier:
            return True
        return rule.action is not Verdict.ALLOW and has_member(rule.specifier, value)

    def _message(self, tool: str, value: Any, rules: tuple[RuleRef, ...]) -> str:
        if tool == WEB_FETCH:
            return f"WebFetch denied access to domain:{host_of(value) or ', '.join(sorted(address_of(value).hosts))}."
        _, specifier = parse_rule(rules[0].text)
        if specifier is not None and tool in _SUBAGENTS and ":" not in specifier:
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
            return self._matches(rule, tool, value) or (
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


def has_member(specifier: str, value: Mapping[str, Any]) -> bool:
    """Match `member:glob` with an input, except members that have canonical rules of their own (a command, a path)."""
    member, colon, wanted = specifier.partition(":")
    if not colon or member not in value or member in ("command", "file_path", "notebook_path", "path", "url"):
        return False
    given = value[member]
    return name_glob(wanted)(str(given).lower() if isinstance(given, bool) else str(given))


def _refs(rules: Sequence[ToolRule]) -> tuple[RuleRef, ...]:
    return tuple(rule.ref for rule in rules)
