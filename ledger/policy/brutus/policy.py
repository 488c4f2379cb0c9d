"""The policy of the dialect `brutus` (brutus.md)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Part, PolicySource, Rule, Verdict, strictest
from ledger.policy.brutus.arity import arity_prefix
from ledger.policy.brutus.bash import CommandPlace, commands_of, outside, pattern_of, really_outside
from ledger.policy.brutus.hard import ACCESS_PERMISSION, BrutusCommands
from ledger.policy.brutus.hardening import tightened
from ledger.policy.brutus.judge import BrutusJudge
from ledger.policy.brutus.rules import compile_rule, read_layers
from ledger.policy.evaluations import joined
from ledger.policy.facts import FileFacts
from ledger.policy.rules import permission_of
from ledger.policy.shell import Analysis
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.unwrap import peeled
from ledger.policy.toolrules.options import read_options
from ledger.policy.unknown import UNKNOWN_FOLDER, readable_evaluation

BASH: Final = "bash"
EXTERNAL: Final = "external_directory"

OPTIONS: Final = ("profile", "cwd", "home", "fs")
_NO_RULE: Final = "no rule matches, and the default is ask"
_GRANTED: Final = "allowed by a grant in force"
_SUBJECTS: Final = ("file_path", "filePath", "path", "pattern", "url")


class BrutusPolicy:
    """Rules of BRUTUS, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `cwd` (the project; a call's own `cwd` and the
    `workdir` of its input set the start directory of a command), `home`, and `fs` (facts about files, see
    `MappedFacts`). Raises PolicyError for any other option and for anything malformed.
    """

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        self._source = source
        self._options = read_options("brutus", source.options, facts, OPTIONS)
        self._configured = read_layers(source.layers)
        compiled = sorted(map(compile_rule, self._configured), key=lambda rule: rule.key)
        self._last_first = tuple(reversed(compiled))

    @property
    def source(self) -> PolicySource:
        return self._source

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the configured rules in force, in the order in which the last match is searched."""
        return tuple(compiled.rule for compiled in reversed(self._last_first))

    def with_facts(self, facts: FileFacts) -> BrutusPolicy:
        """Return the same policy with other facts about files; `fs` of the source takes precedence."""
        return BrutusPolicy(self._source, facts)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        return readable_evaluation(self._evaluate(call, grants))

    def _evaluate(self, call: Call, grants: Sequence[Grant]) -> Evaluation:
        """Judge each pattern; the first one that is not allowed decides (brutus.md, `Ask`), in hardened the strictest.

        For a bash line `ask_first` holds the call about folders outside the project. While that is refused, the line
        itself is not asked about.
        """
        if call.tool_name is None:
            patterns = tuple(dict.fromkeys(call.patterns))
            return self._patterns(call.permission, patterns, self._always(call.permission, patterns), grants)
        if call.tool_name != BASH:
            permission = permission_of(call.tool_name)
            judged = self._patterns(permission, (_subject(call.input),), ("*",), grants)
            judged = self._tightened(judged, permission, call, grants)
            return judged if permission == call.tool_name else self._by_name(judged, permission, call)
        return self._bash(call, grants)

    def _patterns(
        self, permission: str, patterns: Sequence[str], always: tuple[str, ...], grants: Sequence[Grant]
    ) -> Evaluation:
        if not patterns:
            return Evaluation(Verdict.ALLOW, reason="the call names no pattern, so there is nothing to judge")
        judge = self._judge(permission, grants)
        if permission != BASH or not self._options.hardened:
            return self._judged(judge, patterns, grants, always)
        place = self._place(self._options.cwd)
        found = []
        for line in patterns:  # each is a separate line
            faithful = self._judged(judge, (line,), grants, always)
            found.append(self._hardened(line, faithful, place, grants, analyse(line)))
        return joined(found)

    def _tightened(self, judged: Evaluation, permission: str, call: Call, grants: Sequence[Grant]) -> Evaluation:
        if not self._options.hardened:
            return judged
        place = self._place(call.cwd or self._options.cwd)
        return tightened(judged, _subjects(call.input), place, self._judge(permission, grants))

    def _by_name(self, judged: Evaluation, permission: str, call: Call) -> Evaluation:
        """Deny what a rule by the tool's own name denies (`write: {*.env: deny}`), though the tool asks for `edit`."""
        by_name = self._judge(call.tool_name or permission)
        for text in _subjects(call.input):
            rule = by_name.find(text).rule
            if rule is not None and rule.action is Verdict.DENY and not rule.permission(permission):
                return joined((judged, self._judged(by_name, (text,), (), ())))
        return judged

    def _bash(self, call: Call, grants: Sequence[Grant]) -> Evaluation:
        line = _member(call.input, "command") or ""
        place = self._place(posixpath.join(call.cwd or self._options.cwd, _member(call.input, "workdir") or "."))
        commands = commands_of(line)
        if commands is None:
            part = Part(" ".join(line.split()), Verdict.ASK, liftable=False)
            return Evaluation(Verdict.ASK, (part,), reason="the line is too long or too complex to analyse")
        patterns = tuple(dict.fromkeys(map(pattern_of, commands)))
        if not patterns:
            return Evaluation(Verdict.ALLOW, reason="the line holds no command, so there is nothing to judge")
        prefixes = (" ".join(arity_prefix([word.raw for word in command.words])) + "*" for command in commands)
        judge = self._judge(BASH, grants)
        faithful = self._judged(judge, patterns, grants, tuple(dict.fromkeys(prefixes)))
        if not self._options.hardened:
            return replace(faithful, ask_first=_first(call, outside(commands, place)))
        analysis = analyse(line)
        judged = self._hardened(line, faithful, place, grants, analysis, asks_first=True)
        return replace(judged, ask_first=_first(call, really_outside((*commands, *analysis.commands), place)))

    def _hardened(
        self,
        line: str,
        faithful: Evaluation,
        place: CommandPlace,
        grants: Sequence[Grant],
        analysis: Analysis,
        *,
        asks_first: bool = False,
    ) -> Evaluation:
        files = {access: self._judge(permission) for access, permission in ACCESS_PERMISSION.items()}
        rules = BrutusCommands(self._judge(BASH, grants), files, place, asks_first=asks_first)
        return hardened(line, faithful, rules, place.directory, analysis)

    def _always(self, permission: str, patterns: Iterable[str]) -> tuple[str, ...]:
        """Return the entries of an approval: the arity prefix of a command, the folder of a path, else everything.

        The page grants `/etc*` for `/etc/passwd`, which also matches `/etcetera`; hardened grants `/etc/*`.
        """
        if permission == BASH:
            found: Iterable[str] = (" ".join(arity_prefix(pattern.split(" "))) + "*" for pattern in patterns)
        elif permission == EXTERNAL:
            found = (_beside(path) if self._options.hardened else posixpath.dirname(path) + "*" for path in patterns)
        else:
            found = ("*",)
        return tuple(dict.fromkeys(found))

    def _judged(
        self, judge: BrutusJudge, patterns: Sequence[str], grants: Sequence[Grant], always: tuple[str, ...]
    ) -> Evaluation:
        parts = [judge.part(text) for text in patterns]
        first = next((part for part in parts if part.verdict is not Verdict.ALLOW), None)
        verdict = first.verdict if first else Verdict.ALLOW
        message = self._denial(grants) if verdict is Verdict.DENY else None
        if self._options.hardened:
            strict = strictest(part.verdict for part in parts)
            if strict is not verdict:
                denying = next(part for part in parts if part.verdict is strict)
                verdict, message = strict, f"Denied by rule: {denying.rules[0].text}"
        elif verdict is Verdict.ASK:
            parts = [_unjudged(part) for part in parts]
        deciding = [part for part in parts if part.verdict is verdict]
        rules = tuple(dict.fromkeys(ref for part in deciding for ref in part.rules))
        return Evaluation(verdict, tuple(parts), rules, message, _reason(verdict, deciding), always)

    def _denial(self, grants: Sequence[Grant]) -> str:
        """Return all rules, approvals last, as Go prints them."""
        approved = [Rule(grant.permission, grant.pattern, Verdict.ALLOW) for grant in grants]
        rules = (f"{{{rule.permission} {rule.pattern} {rule.action.value}}}" for rule in (*self._configured, *approved))
        return f"Permission denied by rule: [{' '.join(rules)}]"

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether an approval turns a part that was recorded as ask into an allow."""
        if not part.liftable or part.verdict is not Verdict.ASK:
            return False
        judge = self._judge(permission, (grant,))
        if permission != BASH or not self._options.hardened:
            return bool(judge.find(part.text).grants)
        analysis = lex(part.text)
        if not analysis.plain or len(analysis.commands) != 1:
            return False
        rules = BrutusCommands(judge, {}, self._place(self._options.cwd))
        ruling = rules.allow(peeled(analysis.commands[0]))
        return ruling is not None and bool(ruling.grants)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools whose last rule denies every pattern."""
        return frozenset(tool for tool in tools if self._wholly_denied(permission_of(tool)))

    def _wholly_denied(self, permission: str) -> bool:
        last = next((rule for rule in self._last_first if rule.permission(permission)), None)
        return last is not None and last.action is Verdict.DENY and last.rule.pattern == "*"

    def _judge(self, permission: str, grants: Sequence[Grant] = ()) -> BrutusJudge:
        return BrutusJudge(self._last_first, permission, grants, final_denies=self._options.hardened)

    def _place(self, directory: str) -> CommandPlace:
        options = self._options
        # Without a project the page's program runs in the root, so no path is outside.
        project = options.cwd if options.hardened or options.cwd != UNKNOWN_FOLDER else "/"
        whole = "/" + posixpath.normpath(posixpath.join("/", directory)).lstrip("/")
        return CommandPlace(project, whole, options.home, options.facts)


def _unjudged(part: Part) -> Part:
    """Return a part as an ask: the source stops at the first pattern that asks, so a later deny is asked about too."""
    return Part(part.text, Verdict.ASK, part.rules, liftable=False) if part.verdict is Verdict.DENY else part


def _first(call: Call, paths: tuple[str, ...]) -> tuple[Call, ...]:
    return (Call(EXTERNAL, paths, cwd=call.cwd, agent=call.agent),) if paths else ()


def _beside(path: str) -> str:
    """Return a pattern for everything in the folder of a path; for a path directly below the root, the path itself."""
    parent = posixpath.dirname(path)
    return path if parent in ("/", "") else parent + "/*"


def _subject(value: Any) -> str:
    """Return the subject of a call of another tool as written; the page defines only bash."""
    return next((text for name in _SUBJECTS if (text := _member(value, name))), "*")


def _subjects(value: Any) -> tuple[str, ...]:
    """Return every member of an input that may be a path or an address."""
    return tuple(text for name in _SUBJECTS if name != "pattern" and (text := _member(value, name)))


def _member(value: Any, name: str) -> str | None:
    text = value.get(name) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) and text else None


def _reason(verdict: Verdict, deciding: Sequence[Part]) -> str | None:
    if verdict is Verdict.ALLOW:
        return _GRANTED if any(part.grants for part in deciding) else None
    return _NO_RULE if any(not part.rules for part in deciding) else None
