"""The dialect `brutus`: OpenCode's rules as BRUTUS implements them in Go (brutus.md).

Rules are sorted by their permission, and approvals among them; wildcards keep a backslash and match no line end. Faithful,
the first pattern that is not allowed decides.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.policy import Evaluation, Grant, Layer, Part, Policy, PolicySource, Rule, Verdict, strictest
from ledger.policy.checks import RuleOrigin, check_count, check_layers, origin_of, shown
from ledger.policy.dialect import AnswerEffects
from ledger.policy.evaluations import evaluated, joined
from ledger.policy.facts import FileFacts
from ledger.policy.inputs import file_members
from ledger.policy.loader import drop_allows, permission_of, read_section
from ledger.policy.opencode.compiled import CompiledGrants, Rank, WildcardReading, last_match, restricting
from ledger.policy.opencode.hard import OpenCodeCommands, files_named, tightened
from ledger.policy.opencode.layers import OpenCodeOptions, placed_rules
from ledger.policy.opencode.policy import BASH, EXTERNAL, WILDCARDS, OpenCodeJudging, OpenCodePolicy, WildcardDialect
from ledger.policy.opencode.requests import OpenCodePlaces, OpenCodeRequest
from ledger.policy.shell.forms.objections import named_paths
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Access, Analysis, Ruling, ShellCommand, Word
from ledger.policy.shell.names import basename
from ledger.policy.shell.parse import Budget, parse
from ledger.policy.shell.unwrap import peeled
from ledger.policy.shell.words import join_lines, loosen
from ledger.policy.spelled import (
    UNKNOWN_FOLDER,
    absolute,
    is_of_a_process,
    leads_out,
    readable_evaluation,
    spelled_paths,
    within,
)
from ledger.policy.toolrules.commands import visible_text
from ledger.policy.toolrules.rule import read_options
from ledger.policy.urls import read_address

OPTIONS: Final = ("profile", "cwd", "home", "fs")

PATH_COMMANDS: Final = frozenset({"cd", "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown"})
"""Commands whose arguments are checked; the page leaves the list to OpenCode's (opencode.md, "Bash Tool")."""

MORE_PATH_COMMANDS: Final = PATH_COMMANDS | {"rmdir", "ln", "cat"}
"""The commands that the hardened profile checks."""

_STREAMS: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
_SUBJECTS: Final = ("file_path", "filePath", "path", "pattern", "url")

_BY_ARITY: Final[dict[int, str]] = {
    1: "cat cd chmod chown cp echo grep kill ls mkdir mv pwd rm rmdir touch",
    2: "brew cargo docker git go helm kubectl make npm pip pnpm poetry python yarn",
    3: "aws|bun run|docker compose|git config|git remote|git stash|npm run|pnpm run|yarn run",
}
_ARITY: Final = {
    name: arity for arity, names in _BY_ARITY.items() for name in (names.split("|") if "|" in names else names.split())
}


def arity_prefix(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the words that identify a command: as many as its longest entry says (brutus.md, "Bash Arity").

    An entry counts only if the command has that many words; without one, the first word is returned. Empty for no
    words.
    """
    for length in range(min(len(tokens), 2), 0, -1):
        arity = _ARITY.get(" ".join(tokens[:length]))
        if arity is not None and arity <= len(tokens):
            return tuple(tokens[:arity])
    return tuple(tokens[:1])


def rank(permission: str) -> Rank:
    """Return the sort key of a permission: shorter ones first, then by bytes. The length is in bytes, as in Go."""
    data = permission.encode("utf-8", "surrogatepass")
    return len(data), data


READING: Final = WildcardReading(slashes=False, stop="\n", rank=rank)


# --- rules
def read_layers(layers: tuple[Layer, ...]) -> tuple[Rule, ...]:
    """Return the rules of all layers, lowest first, each layer's in the order of its file. Raises PolicyError.

    A layer that is not trusted gives no allow rules.
    """
    check_layers(layers)
    rules: list[Rule] = []
    for layer in layers:
        origin = origin_of(layer)
        own = placed_rules(layer) if layer.config is None else _read_config(layer.config, origin)
        rules += own if layer.trusted else drop_allows(own)
    check_count(len(rules))
    return tuple(rules)


def _read_config(config: object, origin: RuleOrigin) -> tuple[Rule, ...]:
    """Check `{"permission": {name: action or {pattern: action}}}` (brutus.md, "Configuration Loading").

    A `~` in a pattern is literal.
    """
    if not isinstance(config, Mapping):
        raise origin.problem(f"a configuration is an object with `permission`, not {shown(config)}", ())
    section = config.get("permission", {})
    if not isinstance(section, Mapping):
        raise origin.problem(f"`permission` must be an object, not {shown(section)}", ("permission",))
    return tuple(
        Rule(name, pattern, one.action, origin.layer, origin.file, origin.line(one.keys))
        for name, value in read_section(section, origin, ("permission",)).items()
        for pattern, one in (value if isinstance(value, dict) else {"*": value}).items()
    )


# --- requests
class BrutusPlaces(OpenCodePlaces, frozen=True):
    """The project is the worktree; paths outside it stay absolute. No path is inside an unknown project."""

    @property
    def project(self) -> str:
        return self.worktree

    def holds(self, path: str) -> bool:
        return self.project != UNKNOWN_FOLDER and within(path, self.project)

    def from_worktree(self, path: str) -> str:
        return posixpath.relpath(path, self.project) if self.holds(path) else path

    def leads_out(self, path: str, directory: str) -> bool:
        return leads_out(path, directory, (self.project,), self.facts, self.home)

    def enter(self, directory: str, target: str) -> str | None:
        """Return the path as the shell keeps it, which may leave the project neither as written nor by its links."""
        facts, project = self.facts, self.project
        written = posixpath.join(directory, target)
        lexical, root = self.absolute(written), facts.resolve(project)
        real = all(within(facts.resolve(path), root) for path in (lexical, written))
        return lexical if real and (within(lexical, project) or within(lexical, root)) else None

    def resolved(self, word: Word) -> str:
        """Return an absolute path; `~` without a known home stays as written and is outside every folder."""
        text = loosen(word)
        if word.tilde:
            if self.home is None or not (text == "~" or text.startswith("~/")):
                return text
            text = self.home + text[1:]
        return self.absolute(text)


def commands_of(line: str) -> tuple[ShellCommand, ...] | None:
    """Return each simple command at any depth; None for a line that is too long or too complicated.

    A line in which the grammar finds no command (an assignment, a redirection alone) is split into words.
    """
    budget = Budget()
    found = parse(join_lines(line), budget)
    if budget.spent is not None:
        return None
    commands = tuple(one.command for one in found if one.command.words)
    if commands or not line.strip():
        return commands
    return (ShellCommand(line.strip(), tuple(Word(word, word) for word in line.split())),)


def outside(commands: Sequence[ShellCommand], places: BrutusPlaces) -> tuple[str, ...]:
    """Return the arguments of path commands that lead outside the project, resolved, without repeats.

    Arguments with a leading `-` are options.
    """
    paths = (
        places.resolved(word)
        for command in commands
        if command.words and loosen(command.words[0]) in PATH_COMMANDS
        for word in command.words[1:]
        if not word.raw.startswith("-")
    )
    return tuple(dict.fromkeys(path for path in paths if not places.holds(path)))


def really_outside(commands: Sequence[ShellCommand], places: BrutusPlaces) -> tuple[str, ...]:
    """Return `outside` with programs matched by base name, more of them, and links followed.

    The start directory of the line counts too.
    """
    found = dict.fromkeys(outside(commands, places))
    root, resolve = places.facts.resolve(places.project), places.facts.resolve
    if commands and places.project != UNKNOWN_FOLDER and not within(resolve(places.directory), root):
        found[places.directory] = None
    for command in commands:
        if command.words and basename(loosen(command.words[0])) in MORE_PATH_COMMANDS:
            paths = [places.resolved(word) for word in command.words[1:] if not loosen(word).startswith("-")]
            found |= dict.fromkeys([one for one in paths if not places.holds(one) or not within(resolve(one), root)])
    for command in commands:
        for path in named_paths(command) if command.words else ():
            if path not in _STREAMS and places.leads_out(path, places.directory):
                found[places.resolved(Word(path, path, tilde=path.startswith("~")))] = None
    return tuple(found)


# --- judging
class BrutusCommands(OpenCodeCommands):
    """Rules and grants of one call for one command. Each answer allows at most what OpenCode's allows."""

    entering = ("cd",)
    places: BrutusPlaces

    def shown(self, command: ShellCommand) -> Iterable[str]:
        return (visible_text(command.words),)

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        text = " ".join([word.raw for word in command.words])
        rule = None if command.assignments or {"*", "?"} & {*text} else self.last(text)
        allows = rule is not None and rule.action is Verdict.ALLOW and rule.text == text
        return Ruling(Verdict.ALLOW, rule.refs) if rule is not None and allows else None

    def allow_statement(self, command: ShellCommand) -> Ruling | None:
        return None

    def allows_everything(self) -> bool:
        return False

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Apply the rules for `read` and `edit` to the path as written, absolute, and relative to the project."""
        whole = posixpath.normpath(posixpath.join(directory, path))
        return self.ruling_on({access.value: dict.fromkeys((path, whole, self.places.from_worktree(whole)))})

    def guards_files(self) -> bool:
        return any(self.rules.of(access.value).restricting for access in Access)

    def readings(self, path: str, directory: str) -> Iterable[str]:
        forms = spelled_paths(path, directory, self.places.home, self.places.facts)
        return dict.fromkeys((path, *forms, *map(self.places.from_worktree, forms)))

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        found = (
            tuple(bare for word in rule.text.split(" ") if (bare := word.strip("*")))
            for rule in self.bash.all
            if rule.action is not Verdict.ALLOW
        )
        return [words for words in found if words]

    def external(self, path: str) -> str:
        return path


class BrutusJudging(OpenCodeJudging):
    """One call, with its grants. While a call about folders outside is refused, the line itself is not asked about."""

    commands = BrutusCommands
    policy: BrutusPolicy

    def evaluation(self) -> Evaluation:
        return readable_evaluation(super().evaluation())

    @cached_property
    def places(self) -> BrutusPlaces:
        call = self.call
        workdir = _member(call.input, "workdir") if call.tool_name == BASH else None
        return self.policy.places(None if call.tool_name is None else call.cwd, workdir)

    def asked(self) -> OpenCodeRequest | Evaluation:
        call = self.call
        if call.tool_name is None:
            patterns = tuple(dict.fromkeys(call.patterns))
            return OpenCodeRequest(call.permission, patterns, self.policy.always(call.permission, patterns))
        if call.tool_name != BASH:
            # The page defines only bash; the subject of another tool is judged as it is written.
            subject = next((text for name in _SUBJECTS if (text := _member(call.input, name))), "*")
            return OpenCodeRequest(permission_of(call.tool_name), (subject,))
        line = _member(call.input, "command") or ""
        commands = commands_of(line)
        if commands is None:
            part = Part(" ".join(line.split()), Verdict.ASK, liftable=False)
            return Evaluation(Verdict.ASK, (part,), reason="the line is too long or too complex to analyse")
        if not commands:
            return Evaluation(Verdict.ALLOW, reason="the line holds no command, so there is nothing to judge")
        self._commands, found = commands, outside(commands, self.places)
        words = [[word.raw for word in command.words] for command in commands]
        always = tuple(dict.fromkeys([" ".join(arity_prefix(one)) + "*" for one in words]))
        patterns = tuple(dict.fromkeys(map(" ".join, words)))
        return OpenCodeRequest(BASH, patterns, always, (found,) if found else (), line)

    def judge(self, patterns: Sequence[str], always: tuple[str, ...]) -> Evaluation:
        judged = self.policy.judge(self.request.permission, patterns, self.grants, always)
        return judged if self.policy.is_hardened else self._by_name(judged)

    def tool(self) -> Evaluation:
        judged = self.judge(self.request.patterns, self.request.always)
        if self.call.tool_name is None:
            return judged
        return self._by_name(tightened(judged, self._readings()))

    def offered(self, analysis: Analysis) -> tuple[str, ...]:
        return self.request.always

    def first(self, analysis: Analysis) -> tuple[tuple[str, ...], ...]:
        found = really_outside((*self._commands, *analysis.commands), self.places)
        return (found,) if found else ()

    def _by_name(self, judged: Evaluation) -> Evaluation:
        """Deny what a rule by the tool's own name denies (`write: {*.env: deny}`), though the tool asks for `edit`."""
        tool, permission = self.call.tool_name, self.request.permission
        if tool is None or tool == permission:
            return judged
        known = self.policy.compiled.of(tool)
        for text in _subjects(self.call.input):
            rule = last_match(text, known)
            if rule is not None and rule.action is Verdict.DENY and not rule.permission(permission):
                none = CompiledGrants((), tool, READING)
                return joined((judged, self.policy.judge(tool, (text,), none)))
        return judged

    def _readings(self) -> Iterator[Part]:
        """Yield the restricted ones among the other readings of the call's paths and addresses."""
        places, permission = self.places, self.request.permission
        fetches = permission == "webfetch"
        yield from files_named(permission, self.call, places, self.policy.compiled)
        for text in dict.fromkeys((*_subjects(self.call.input), *file_members(self.call.input))):
            address = read_address(text) if ":" in text or fetches else None
            for reading in address.texts if address is not None else ():
                yield from self._restricted(reading)
            if fetches:
                if address is None or not (address.texts and address.is_clear):
                    yield Part(text, Verdict.ASK, liftable=False)
                continue
            for form in spelled_paths(text, places.directory, places.home, places.facts):
                # Inside the project a pattern that begins with `*` matches the path from the project's root.
                yield from self._restricted(form, floats=not places.holds(form))
                if places.holds(form):
                    yield from self._restricted(places.from_worktree(form))
                if is_of_a_process(form) or "\0" in text:
                    yield Part(text, Verdict.ASK, liftable=False)

    def _restricted(self, text: str, *, floats: bool = True) -> Iterator[Part]:
        rule = restricting(text, self.policy.compiled.of(self.request.permission))
        if rule is not None and (floats or not rule.refs[0].text.partition(" ")[2].startswith("*")):
            yield Part(text, rule.action, rule.refs, liftable=False)


class BrutusPolicy(OpenCodePolicy):
    """Rules of BRUTUS, compiled.

    Options: `profile` (`hardened`, the default, or `faithful`), `cwd` (the project; a call's own `cwd` and the
    `workdir` of its input set the start directory of a command), `home`, and `fs` (facts about files, see
    `MappedFacts`). Raises PolicyError for any other option and for anything malformed.
    """

    reading = READING
    judging = BrutusJudging
    compat = None

    def _read(
        self, source: PolicySource, facts: FileFacts | None
    ) -> tuple[OpenCodeOptions, tuple[Rule, ...], Collection[str]]:
        given = read_options("brutus", source.options, facts, OPTIONS)
        self._configured = read_layers(source.layers)
        # Without a project the page's program runs in the root, so no path is outside.
        self._project = "/" if given.cwd == UNKNOWN_FOLDER and not given.hardened else given.cwd
        options = OpenCodeOptions(
            profile="hardened" if given.hardened else "faithful",
            compat="v2" if given.hardened else "v1",
            home=given.home,
            cwd=given.cwd,
            facts=given.facts,
        )
        return options, tuple(sorted(self._configured, key=lambda rule: rank(rule.permission))), ()

    def places(self, cwd: str | None, workdir: str | None = None) -> BrutusPlaces:
        options, project = self._options, self._project
        whole = absolute(workdir or ".", absolute(cwd or options.cwd or "/"))
        return BrutusPlaces(whole, project, (project,), options.home, options.facts, options.hardened)

    def always(self, permission: str, patterns: Iterable[str]) -> tuple[str, ...]:
        """Return the entries of an approval: the arity prefix of a command, the folder of a path, else everything.

        The page grants `/etc*` for `/etc/passwd`, which also matches `/etcetera`; hardened grants `/etc/*`.
        """
        if permission == BASH:
            found: Iterable[str] = (" ".join(arity_prefix(pattern.split(" "))) + "*" for pattern in patterns)
        elif permission == EXTERNAL:
            found = (_beside(path) if self.is_hardened else posixpath.dirname(path) + "*" for path in patterns)
        else:
            found = ("*",)
        return tuple(dict.fromkeys(found))

    def judge(
        self, permission: str, patterns: Sequence[str], grants: CompiledGrants, always: tuple[str, ...] = ()
    ) -> Evaluation:
        """Judge each pattern; the first one that is not allowed decides (brutus.md, `Ask`), in hardened the strictest."""
        if not patterns:
            return super().judge(permission, patterns, grants)
        rules = self.compiled.of(permission)
        parts = [self.part(text, last_match(text, rules), grants) for text in patterns]
        verdict = next((part.verdict for part in parts if part.verdict is not Verdict.ALLOW), Verdict.ALLOW)
        message = self._denial_with(grants.given) if verdict is Verdict.DENY else None
        if self.is_hardened:
            strict = strictest(part.verdict for part in parts)
            if strict is not verdict:
                denying = next(part for part in parts if part.verdict is strict)
                verdict, message = strict, f"Denied by rule: {denying.rules[0].text}"
        elif verdict is Verdict.ASK:
            parts = [_unjudged(part) for part in parts]
        return evaluated(parts, verdict, message=message, always=always)

    def _denial_with(self, grants: Sequence[Grant]) -> str:
        """Return all rules, approvals last, as Go prints them."""
        approved = [Rule(grant.permission, grant.pattern, Verdict.ALLOW) for grant in grants]
        rules = (f"{{{rule.permission} {rule.pattern} {rule.action.value}}}" for rule in (*self._configured, *approved))
        return f"Permission denied by rule: [{' '.join(rules)}]"

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Return whether an approval turns a part that was recorded as ask into an allow."""
        if not part.liftable or part.verdict is not Verdict.ASK:
            return False
        granted = CompiledGrants((grant,), permission, READING)
        if permission != BASH or not self.is_hardened:
            return bool(self.lifted(part.text, last_match(part.text, self.compiled.of(permission)), granted))
        analysis = lex(part.text)
        if not analysis.plain or len(analysis.commands) != 1:
            return False
        rules = BrutusCommands(self.compiled, granted, self.places(None), final_denies=True)
        ruling = rules.allow(peeled(analysis.commands[0]))
        return ruling is not None and bool(ruling.grants)


class BrutusDialect(WildcardDialect):
    """BRUTUS (brutus.md)."""

    name = "brutus"
    # The program joins the `*` to the last word: `git tag*` also matches `git tagger`.
    language = replace(WILDCARDS, options=OPTIONS, sorts_permissions=True, offers_glued=False)
    answers = AnswerEffects(
        always_scope="session",  # brutus.md, Manager
        with_feedback="Permission rejected with feedback: {}",  # brutus.md, errors.go
    )

    def compile(self, source: PolicySource) -> Policy:
        return BrutusPolicy(source)


def _unjudged(part: Part) -> Part:
    """Return a part as an ask: the source stops at the first pattern that asks, so a later deny is asked about too."""
    return Part(part.text, Verdict.ASK, part.rules, liftable=False) if part.verdict is Verdict.DENY else part


def _beside(path: str) -> str:
    """Return a pattern for everything in the folder of a path; for a path directly below the root, the path itself."""
    parent = posixpath.dirname(path)
    return path if parent in ("/", "") else parent + "/*"


def _subjects(value: Any) -> tuple[str, ...]:
    """Return every member of an input that may be a path or an address."""
    return tuple(text for name in _SUBJECTS if name != "pattern" and (text := _member(value, name)))


def _member(value: Any, name: str) -> str | None:
    text = value.get(name) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) and text else None
