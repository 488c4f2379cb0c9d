"""The dialect `opencode`: permission and pattern rules, the last match decides."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from msgspec.structs import replace

from ledger.core.policy import (
    Call,
    Evaluation,
    Grant,
    Layer,
    Part,
    PolicySource,
    Rule,
    RuleRef,
    Verdict,
    strictest,
)
from ledger.policy.checks import check_count, shown
from ledger.policy.dialect import (
    DEFAULT_LAYER,
    Dialect,
    Language,
    ListedRule,
    Notation,
)
from ledger.policy.evaluations import NO_PATTERN, CompiledPolicy, evaluated, joined
from ledger.policy.facts import FileFacts
from ledger.policy.inputs import command_of
from ledger.policy.loader import disabled, load_rules, permission_of
from ledger.policy.matching import normalise, wildcard_covers
from ledger.policy.opencode.compiled import (
    OPENCODE,
    CompiledGrants,
    CompiledRule,
    CompiledRules,
    WildcardReading,
    is_restricted_apart,
    last_match,
)
from ledger.policy.opencode.hard import OpenCodeCommands, led_to, restricted_readings, tightened
from ledger.policy.opencode.layers import (
    OWN_AGENTS,
    Compat,
    OpenCodeEdition,
    OpenCodeOptions,
    configured_rules,
    read_options,
    rules_of_agents,
)
from ledger.policy.opencode.requests import (
    OTHER_PERMISSIONS,
    PERMISSIONS,
    OpenCodePlaces,
    OpenCodeRequest,
    hidden_directories,
    offered,
    shell_request,
    tool_request,
)
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.model import Analysis

AGENTS_COUNT: Final = 16
"""The agents whose rules one policy keeps compiled."""

BASH: Final = "bash"
EDIT: Final = "edit"
EXTERNAL: Final = "external_directory"

_DENIED: Final[Mapping[OpenCodeEdition, str]] = {
    "current": (
        "The user has specified a rule which prevents you from using this specific tool call. "
        "Here are some of the relevant rules {}"
    ),
    "opencode.md": "Rule prevents this tool call: {}",
}
_TAIL: Final[Mapping[OpenCodeEdition, str]] = {"current": " *", "opencode.md": "*"}

_stringify: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""JSON exactly as JavaScript's JSON.stringify writes it."""


class OpenCodePolicy(CompiledPolicy):
    """Rules of OpenCode, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `edition` (`current`, or `opencode.md` with that page's
    order, texts and `always` patterns), `order` (`insertion` or `key-length`; default: the edition's), `compat` (`v2`:
    a configured deny is final, a grant lifts an ask; `v1`: grants come after all rules and lift a deny too; default:
    `v1` in faithful, `v2` in hardened), `defaults` (true adds the program's built-in rules), `agent` (whose section and
    built-in rules count for who has none of its own; `build` if the built-in rules are on), `home`, `cwd` (the agent's start directory; a call may
    run in another folder), `worktree` (the root of its repository; default: the one known around `cwd`), `sandbox_root`
    (a further directory that `cd` may enter), `data` and `tmp` (the program's own folders), and `fs` (facts about
    files, see `MappedFacts`). Raises PolicyError for any other option and for anything malformed.
    """

    reading: ClassVar[WildcardReading] = OPENCODE
    judging: ClassVar[type[OpenCodeJudging]]

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        super().__init__(source)
        self._facts = facts
        self._of_agents: OrderedDict[str, Self] = OrderedDict()
        self._options, self._rules, self._agents = self._read(source, facts)
        self.compiled = CompiledRules(self._rules, self.reading)
        self.final_denies = self._options.compat == "v2"
        self.is_hardened = self._options.hardened

    def _read(
        self, source: PolicySource, facts: FileFacts | None
    ) -> tuple[OpenCodeOptions, tuple[Rule, ...], Collection[str]]:
        """Return the options, the rules in force, and the agents with rules of their own. Raises PolicyError."""
        options = read_options(source.options, facts)
        rules = configured_rules(source.layers, options)
        sections = rules_of_agents(source.layers, options)
        check_count(len(rules) + max(sections.values(), default=0))
        return options, rules, sections.keys() | (OWN_AGENTS if options.defaults else frozenset())

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the configured rules in force, in the order in which the last match is searched."""
        return self._rules

    @property
    def compat(self) -> Compat | None:
        """Return the effective `compat` setting; None for a program without it."""
        return self._options.compat

    def of_agent(self, agent: str | None) -> Self:
        """Return the same policy with the section of `agent` in force; this one for an agent without a section."""
        if agent is None or agent == self._options.agent or agent not in self._agents:
            return self
        known = self._of_agents.get(agent)
        if known is None:
            own = replace(self._source, options={**self._source.options, "agent": agent})
            known = self._of_agents[agent] = type(self)(own, self._facts)
            if len(self._of_agents) > AGENTS_COUNT:
                self._of_agents.popitem(last=False)
        return known

    def request(self, call: Call, places: OpenCodePlaces | None = None) -> OpenCodeRequest | None:
        """Return the program's request for a tool call; None if it cannot be derived from the input.

        Patterns in the call itself are used if they differ from those of its input; the request then has only these
        patterns and no directories. `places` are those of the call, if they are known already.
        """
        if call.tool_name is None:
            return OpenCodeRequest(call.permission, call.patterns, ())
        found = self._tool_request(call.tool_name, call.input, places or self.places(call.cwd))
        if not call.patterns:
            return found
        same = found is not None and found.permission == call.permission and {*found.patterns} == {*call.patterns}
        return found if same else OpenCodeRequest(call.permission, call.patterns, ())

    def _tool_request(self, tool: str, value: object, places: OpenCodePlaces) -> OpenCodeRequest | None:
        members = {} if value is None else value
        if not isinstance(members, Mapping):
            return None
        if tool != BASH:
            return tool_request(tool, members, places)
        command, workdir = members.get("command"), members.get("workdir")
        if not isinstance(command, str) or not isinstance(workdir, str | None):
            return None
        return shell_request(command, workdir, places, tail=self.tail)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge every pattern alone; the strictest verdict counts (opencode.md "Rule Evaluation Algorithm").

        Unlike opencode-zh.md 5.1, a pattern that asks does not keep a later one from denying. The patterns of a tool
        call are derived as in the program. Directories outside the project are in `ask_first`: they are separate calls,
        and a single verdict is the strictest of all. In the hardened profile each pattern of a `bash` call without a
        tool is analysed as a separate command line, and of a tool call the whole line.
        """
        found = self.judging(self.of_agent(call.agent), call, grants).evaluation()
        if found.verdict is not Verdict.ASK or found.reason is not None:
            return found
        asking = next(part for part in found.parts if part.verdict is Verdict.ASK)
        return replace(found, reason=f"a rule asks about {shown(asking.text)}")

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether a grant turns a part that was recorded as ask into an allow."""
        granted = CompiledGrants((grant,), permission)
        if not part.liftable or not any(one.pattern(normalise(part.text)) for one in granted.about(part.text)):
            return False
        if permission != BASH or not self.is_hardened:
            return True
        places = self.places(None)
        rules = OpenCodeCommands(self.compiled, granted, places, final_denies=self.final_denies)
        lifted = Evaluation(Verdict.ALLOW, (Part(part.text, Verdict.ALLOW),))
        return hardened(part.text, lifted, rules, places.directory).verdict is Verdict.ALLOW

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that the configured rules deny for every pattern (opencode-zh.md 9.4)."""
        return disabled(tools, self._rules)

    def places(self, cwd: str | None) -> OpenCodePlaces:
        return self._options.places(cwd)

    def judge(
        self, permission: str, patterns: Sequence[str], grants: CompiledGrants, always: tuple[str, ...] = ()
    ) -> Evaluation:
        """Return the faithful verdict about some patterns of one permission."""
        if not patterns:
            return Evaluation(Verdict.ALLOW, reason=NO_PATTERN, always=always)
        candidates = self.compiled.of(permission)
        parts = [self.part(text, last_match(text, candidates), grants) for text in patterns]
        verdict = parts[0].verdict if len(parts) == 1 else strictest([part.verdict for part in parts])
        message = self._denial(candidates.all) if verdict is Verdict.DENY else None
        return evaluated(parts, verdict, message=message, always=always)

    def part(self, text: str, rule: CompiledRule | None, grants: CompiledGrants) -> Part:
        """Return a text with the verdict of the rule that decides about it, or of the grants that come after the rule."""
        liftable = rule is None or not (self._is_final(rule) or grants.rank < rule.rank)
        if (rule is None or rule.action is not Verdict.ALLOW) and (lifted := self.lifted(text, rule, grants)):
            return Part(text, Verdict.ALLOW, (), liftable, lifted)
        return Part(text, Verdict.ASK) if rule is None else Part(text, rule.action, rule.refs, liftable)

    def lifted(self, text: str, rule: CompiledRule | None, grants: CompiledGrants) -> tuple[str, ...]:
        """Return the grants that match a text and come after the rule about it."""
        if grants.nothing:
            return ()
        known = grants.about(text)
        if not known or (rule is not None and self._is_final(rule)):
            return ()
        value = self.reading.normal(text)
        return tuple([one.grant_id for one in known if (rule is None or one.rank >= rule.rank) and one.pattern(value)])

    def _is_final(self, rule: CompiledRule) -> bool:
        return rule.action is Verdict.DENY and self.final_denies

    def _denial(self, candidates: Sequence[CompiledRule]) -> str:
        """Return OpenCode's message to the agent: the configured rules of this permission, in order."""
        spelt = _stringify([compiled.spelt for compiled in reversed(candidates)])
        return _DENIED[self._options.edition].format(spelt)

    @property
    def tail(self) -> str:
        """Return the text that an `always` appends to the words that identify a command."""
        return _TAIL[self._options.edition]


class OpenCodeJudging:
    """One call of one policy, with its grants."""

    commands: ClassVar[type[OpenCodeCommands]] = OpenCodeCommands

    def __init__(self, policy: OpenCodePolicy, call: Call, grants: Sequence[Grant]) -> None:
        self.policy, self.call, self.granted = policy, call, grants

    @cached_property
    def places(self) -> OpenCodePlaces:
        """Return the places of the call; computed only when needed, since it takes longer than finding the rule."""
        return self.policy.places(self.call.cwd)

    def evaluation(self) -> Evaluation:
        call, request = self.call, self.asked()
        if isinstance(request, Evaluation):
            return request
        self.request, first = request, request.directories
        self.grants = CompiledGrants(self.granted, request.permission, self.policy.reading)
        if not self.policy.is_hardened:
            judged = self.judge(request.patterns, request.always)
        elif request.permission != BASH:
            judged = self.tool()
        # The line that a caller's patterns were taken from, if the caller gives it.
        elif (line := request.command or (command_of(call.input) if call.tool_name == BASH else None)) is None:
            judged = self._lines(request.patterns)
        else:
            analysis = analyse(line)
            judged = self._line(line, self.judge(request.patterns, self.offered(analysis)), analysis)
            if request.command is not None:
                first = self.first(analysis)
        if not first:
            return judged
        asked = [Call(EXTERNAL, patterns, cwd=call.cwd, agent=call.agent) for patterns in first]
        return replace(judged, ask_first=tuple(asked))

    def asked(self) -> OpenCodeRequest | Evaluation:
        """Return the request of the call, or the evaluation of one that cannot be derived or needs none."""
        places = None if self.call.tool_name is None else self.places
        return self.policy.request(self.call, places) or _unknown_input(self.call)

    def judge(self, patterns: Sequence[str], always: tuple[str, ...]) -> Evaluation:
        """Judge patterns by the permission, and those that a rule by the tool's own name restricts by that rule too.

        Such a rule of opencode-zh.md 9.1 (`write: {*.env: deny}`) would decide nothing: the tool asks for `edit`.
        """
        policy, tool = self.policy, self.call.tool_name
        judged = policy.judge(self.request.permission, patterns, self.grants, always)
        if self.request.permission != EDIT or tool is None or tool == EDIT:
            return judged
        known = policy.compiled.of(tool)
        own = [text for text in patterns if is_restricted_apart(last_match(text, known), EDIT)]
        return joined((judged, policy.judge(tool, own, self.grants, always))) if own else judged

    def tool(self) -> Evaluation:
        """Judge a call of another tool than the shell in the hardened profile."""
        request = self.request
        more = request.more + led_to(request, self.call, self.places)
        judged = self.judge(request.patterns + more, request.always)
        return tightened(judged, restricted_readings(request, self.call, self.places, self.policy.compiled))

    def offered(self, analysis: Analysis) -> tuple[str, ...]:
        return offered(analysis, self.request, self.policy.tail)

    def first(self, analysis: Analysis) -> tuple[tuple[str, ...], ...]:
        """Return the patterns of the requests for folders outside the project, and for those that the program misses."""
        known = {pattern for patterns in self.request.directories for pattern in patterns}
        found = hidden_directories(analysis, self.request.base or self.places.directory, self.places)
        more = tuple([pattern for pattern in found if pattern not in known])
        return (*self.request.directories, more) if more else self.request.directories

    def _line(self, command: str, judged: Evaluation, analysis: Analysis) -> Evaluation:
        policy, places = self.policy, self.places
        asks_first, final = self.request.command is not None, policy.final_denies
        rules = self.commands(policy.compiled, self.grants, places, final_denies=final, asks_first=asks_first)
        return hardened(command, judged, rules, self.request.base or places.directory, analysis)

    def _lines(self, texts: Sequence[str]) -> Evaluation:
        """Judge patterns that a caller gave without a line: each is parsed as a line."""
        if not texts:
            return self.judge((), ())
        found = [self._line(text, self.judge((text,), self.request.always), analyse(text)) for text in texts]
        both = joined(found)
        return replace(
            both, reason=next((one.reason for one in found if one.verdict is both.verdict and one.reason), None)
        )


OpenCodePolicy.judging = OpenCodeJudging


def _unknown_input(call: Call) -> Evaluation:
    # Fail closed: the effect of a tool is unknown if no patterns can be derived from its input.
    tool = call.tool_name or call.permission
    reason = f"no patterns can be worked out from the input of {shown(tool)}, so a person must look at it"
    return Evaluation(Verdict.ASK, (Part(tool, Verdict.ASK, liftable=False),), reason=reason)


WILDCARDS: Final = Language(
    sections=frozenset({"permission", "tools", "agent"}),
    rule_files=("opencode.json", "opencode.jsonc"),
    tools=(*PERMISSIONS, *OTHER_PERMISSIONS),
    tool_kinds={
        "bash": "shell", "read": "read", "edit": "edit", "webfetch": "fetch", "websearch": "search", "task": "task",
        "glob": "glob", "grep": "grep", "list": "list", "todowrite": "todowrite", "todoread": "todoread",
        "skill": "skill",
    },
    last_match=True,
)  # fmt: skip


class WildcardNotation(Notation):
    """Rules are wildcards over permissions and texts."""

    def listed(self, rules: Iterable[Rule]) -> tuple[ListedRule, ...]:
        return tuple(_listed(rule) for rule in rules)

    def config(
        self, entries: Iterable[tuple[str, str]], action: Verdict, layers: Sequence[Layer] = ()
    ) -> dict[str, Any]:
        section: dict[str, dict[str, str]] = {}
        for permission, entry in entries:
            section.setdefault(permission, {**_whole(layers, permission)})[entry] = action.value
        return {"permission": section}

    def entry_of(self, rule: ListedRule) -> str:
        return rule.pattern

    def shown_entry(self, entry: str, action: Verdict) -> str:
        return f"`{json.dumps(entry)}: {json.dumps(action.value)}`"

    def names(self, wide: ListedRule, narrow: ListedRule) -> bool:
        return wildcard_covers(wide.permission, narrow.permission)


class WildcardDialect(Dialect):
    """A dialect whose rules are wildcards over permissions and texts."""

    language = WILDCARDS
    notation = WildcardNotation()

    def load(
        self, path: str | Path, *, name: str = DEFAULT_LAYER, strict: bool = True, content: bytes | None = None
    ) -> Layer:
        return load_rules(path, name=name, content=content)

    def permission_of(self, tool: str) -> str:
        return permission_of(tool)


def _listed(rule: Rule) -> ListedRule:
    text = f"{rule.permission} {rule.pattern} {rule.action.value}"
    return ListedRule(rule.permission, rule.pattern, rule.action, RuleRef(text, rule.layer, rule.file, rule.line))


def _whole(layers: Sequence[Layer], permission: str) -> dict[str, str]:
    """Return the single action of a permission below, as a pattern: an object in its place would drop it."""
    found: dict[str, str] = {}
    for layer in layers:
        config = layer.config if layer.trusted and isinstance(layer.config, Mapping) else {}
        for name in ("tools", "permission"):
            section = config.get(name)
            value = section.get(permission) if isinstance(section, Mapping) else None
            if isinstance(value, bool):
                value = "allow" if value else "deny"
            if value is not None:
                found = {"*": value} if isinstance(value, str) else {}
    return found
