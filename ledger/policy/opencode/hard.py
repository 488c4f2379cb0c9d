"""OpenCode's rules in the hardened profile: for one command of a line, and for every other reading of a call's files."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Part, RuleRef, Verdict, strictest
from ledger.policy.facts import FileFacts
from ledger.policy.inputs import file_members, named_globs, patched, picked
from ledger.policy.opencode.compiled import (
    CompiledGrants,
    CompiledRule,
    CompiledRules,
    PermissionRules,
    is_restricted_apart,
    last_match,
    last_narrow_match,
    restricting,
)
from ledger.policy.opencode.requests import ENTERING, TOOLS, OpenCodePlaces, OpenCodeRequest, below
from ledger.policy.shell.model import Access, CommandRules, Ruling, ShellCommand, Spelling, SpellingForm
from ledger.policy.spelled import is_of_a_process, leads_out, spelled_paths, with_inside
from ledger.policy.toolrules.commands import visible_text
from ledger.policy.urls import UrlReading, read_address

_HIDDEN_BLANK: Final = "\0"
_HIDDEN: Final = dict.fromkeys(map(ord, " \t\n"), _HIDDEN_BLANK)
FETCH: Final = "webfetch"
SEARCH: Final = "grep"
_FILES: Final = frozenset({"read", "edit", "list"})


class OpenCodeCommands(CommandRules):
    """The rules and grants of one call. `final_denies`: no grant lifts a configured deny.

    `asks_first`: folders outside of the project are asked about in a call of their own.
    """

    entering: ClassVar[Collection[str]] = ENTERING
    """Commands that a catch-all ask is not about."""

    def __init__(
        self,
        rules: CompiledRules,
        grants: CompiledGrants,
        places: OpenCodePlaces,
        *,
        final_denies: bool,
        asks_first: bool = False,
    ) -> None:
        self.rules, self.grants, self.places, self.final_denies = rules, grants, places, final_denies
        self.asks_first = asks_first
        self.bash = rules.of("bash")
        self._last: dict[str, CompiledRule | None] = {}

    def last(self, text: str) -> CompiledRule | None:
        """Return the rule that decides about a command's text, searched once."""
        try:
            return self._last[text]
        except KeyError:
            found = self._last[text] = last_match(text, self.bash)
            return found

    def lifting(self, rule: CompiledRule | None, text: str) -> tuple[str, ...]:
        """Return the grants that match a text and come after the rule about it."""
        if self.grants.nothing:
            return ()
        known = self.grants.about(text)
        if not known or (rule is not None and rule.action is Verdict.DENY and self.final_denies):
            return ()
        return tuple(one.grant_id for one in known if (rule is None or one.rank >= rule.rank) and one.narrow(text))

    def allow(self, command: ShellCommand) -> Ruling | None:
        """Match the words as written, or without quotes that hide nothing; the last rule that matches decides."""
        if command.assignments or not command.words:
            return None
        for shown in self.shown(command):
            rule = last_narrow_match(shown.replace(_HIDDEN_BLANK, " "), shown, self.bash)
            if rule is not None and rule.action is Verdict.ALLOW:
                return Ruling(Verdict.ALLOW, rule.refs, spelled=self._spelled(shown))
            if granted := self.lifting(rule, shown):
                return Ruling(Verdict.ALLOW, (), granted, self._spelled(shown))
        return None

    def shown(self, command: ShellCommand) -> Iterable[str]:
        """Return the texts of a command, in which no pattern takes a blank inside a word for the end of the word."""
        seen = visible_text(command.words)
        if _HIDDEN_BLANK not in seen and seen == command.text:
            return (seen,)
        raw = [word.raw.translate(_HIDDEN) for word in command.words]
        return dict.fromkeys((" ".join(raw), seen))

    def _spelled(self, shown: str) -> tuple[tuple[str, ...], ...]:
        """Return the words of all rules and grants that allow a command: one may name more than the deciding one."""
        known = self.bash.all
        texts = {
            known[at].text: None
            for at in self.bash.candidates(shown)
            if known[at].action is Verdict.ALLOW and known[at].narrow(shown)
        }
        if not self.grants.nothing:
            texts |= {grant.text: None for grant in self.grants.about(shown) if grant.narrow(shown)}
        return tuple(dict.fromkeys([tuple(text.split()) for text in texts]))

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        return self._spelled_out(command.text, " ".join([word.raw for word in command.words]))

    def allow_statement(self, command: ShellCommand) -> Ruling | None:
        return self._spelled_out(command.statement)

    def _spelled_out(self, *texts: str) -> Ruling | None:
        """Return the rule, else the grants, without wildcards that equal one of these texts."""
        plain = tuple(dict.fromkeys([text for text in texts if "*" not in text and "?" not in text]))
        for text in plain:
            rule = self.last(text)
            if rule is not None and rule.action is Verdict.ALLOW and rule.text == text:
                return Ruling(Verdict.ALLOW, rule.refs)
        if self.grants.nothing:
            return None
        ids = tuple(grant.grant_id for grant in self.grants.about(*plain) if grant.text in plain)
        return Ruling(Verdict.ALLOW, (), ids) if ids else None

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        places, full = self.places, self.places.absolute(path, directory)
        leaves = places.outside(full) or leads_out(path, directory, places.roots, places.facts, places.home)
        if leaves and not self._is_open(path, directory):
            return None
        rule = last_match(places.from_worktree(full), self.rules.of(access.value))
        if rule is None:  # `cat < f` needs no more than `cat f`, for which only rules that restrict it apply
            return Ruling(Verdict.ALLOW) if access is Access.READ else None
        return Ruling(Verdict.ALLOW, rule.refs) if rule.action is Verdict.ALLOW else None

    def _is_open(self, path: str, directory: str) -> bool:
        """Return whether rules name and allow the folder of a path outside of the project, whatever the path may mean."""
        places = self.places
        if not self._opens(places.absolute(places.expand(path), directory)):
            return False
        return all(map(self._opens, spelled_paths(path, directory, places.home, places.facts)))

    def _opens(self, path: str) -> bool:
        rule = last_match(self.external(path), self.rules.of("external_directory"))
        return rule is not None and rule.action is Verdict.ALLOW and not rule.catches_all

    def external(self, path: str) -> str:
        """Return the text of `external_directory` for a path."""
        return below(posixpath.dirname(path))

    def allows_everything(self) -> bool:
        return self.rules.allow_everything

    def restrict(self, spelling: Spelling) -> Ruling | None:
        rule = self.last(spelling.text)
        if rule is None or rule.action is Verdict.ALLOW or self.lifting(rule, spelling.text):
            return None
        enters = rule.action is Verdict.ASK and spelling.words[0] in self.entering
        if rule.catches_all and (enters or spelling.form is not SpellingForm.WRITTEN):
            return None
        return Ruling(rule.action, rule.refs)

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        full = self.places.absolute(self.places.expand(path), directory)
        asked = {access.value: (self.places.from_worktree(full),)}
        if self.places.outside(full):
            asked["external_directory"] = (self.external(full),)
        return self.ruling_on(asked)

    def ruling_on(self, asked: Mapping[str, Iterable[str]]) -> Ruling | None:
        """Return the strictest of the rules that decide about texts of several permissions, unless all allow."""
        found = [last_match(text, self.rules.of(permission)) for permission, texts in asked.items() for text in texts]
        for action in (Verdict.DENY, Verdict.ASK):
            for rule in found:
                if rule is not None and rule.action is action:
                    return Ruling(action, rule.refs)
        return None

    def guards_files(self) -> bool:
        return self.rules.guard_files

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        known = [rules for access in accesses if (rules := self.rules.of(access.value)).restricting]
        if not known:
            return None
        texts = [text for one in self.readings(path, directory) for text in with_inside(one)]
        found = [rule for rules in known for text in texts if (rule := restricting(text, rules))]
        strict = strictest(rule.action for rule in found) if found else None
        rule = next((rule for rule in found if rule.action is strict), None)
        return None if rule is None else Ruling(rule.action, rule.refs)

    def readings(self, path: str, directory: str) -> Iterable[str]:
        """Return the texts that a rule about a file may be written for."""
        return map(self.places.from_worktree, spelled_paths(path, directory, self.places.home, self.places.facts))

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        rules = self.bash.in_force
        if not self.grants.nothing:
            rules = tuple([rule for rule in rules if not self.lifting(rule, rule.text)])
        return [tuple(rule.text.split()) for rule in rules]

    def restricting(self) -> tuple[str, ...]:
        return self.bash.restricting

    def facts_of_files(self) -> FileFacts:
        return self.places.facts

    def outside(self, path: str, directory: str) -> bool:
        places = self.places
        is_asked = self.asks_first and not places.outside(directory)
        leaves = not is_asked and leads_out(path, directory, places.roots, places.facts, places.home)
        return leaves and not self._is_open(path, directory)

    def enter(self, directory: str, target: str) -> str | None:
        """Return the directory that `cd` enters: in the project, or where rules allow the folder and edits in it."""
        found, inside = self.places.enter(directory, target), f"{target}/*"
        is_open = found is None and self._is_open(inside, directory) and self.allow_path(Access.EDIT, inside, directory)
        return self.places.absolute(target, directory) if is_open else found


def led_to(request: OpenCodeRequest, call: Call, places: OpenCodePlaces) -> tuple[str, ...]:
    """Return the patterns of the link targets of a call's paths, as far as they differ."""
    if request.permission not in _FILES:
        return ()
    found: dict[str, None] = {}
    for path in _written(request, call):
        for one in (places.absolute(path), f"{places.directory}/{path}" if not path.startswith("/") else path):
            found[places.from_worktree(places.facts.resolve(one))] = None
    return tuple(text for text in found if text not in request.patterns + request.more)


def restricted_readings(
    request: OpenCodeRequest, call: Call, places: OpenCodePlaces, rules: CompiledRules
) -> Iterable[Part]:
    """Return the restricted ones among the other readings of the paths or addresses of a call."""
    if request.permission == FETCH:
        return _of_addresses(request.patterns, rules)
    if request.permission in _FILES:
        return _of_files(request, call, places, rules)
    return files_named(request.permission, call, places, rules)


def files_named(permission: str, call: Call, places: OpenCodePlaces, rules: CompiledRules) -> Iterator[Part]:
    """Yield the restricted files that a search, or a tool of unknown meaning, may name in its input."""
    if permission == SEARCH:
        yield from _of_search(call, places, rules)
    elif permission not in TOOLS and call.tool_name is not None:
        known = [rules.of(access.value) for access in Access]
        texts = named_globs(call.input) if any(one.restricting for one in known) else ()
        for one in known:
            yield from _asking(texts, places, one)


def tightened(judged: Evaluation, readings: Iterable[Part]) -> Evaluation:
    """Return the stricter of an evaluation and the other readings of a call."""
    if judged.verdict is Verdict.DENY:
        return judged
    part = max(readings, key=lambda one: one.verdict is Verdict.DENY, default=None)
    if part is None or part.verdict is judged.verdict:
        return judged
    message = f"Denied by rule: {part.rules[0].text}" if part.verdict is Verdict.DENY else None
    reason = f"`{part.text}` is another reading of the call"
    parts = (*judged.parts, part)
    return replace(judged, verdict=part.verdict, parts=parts, rules=part.rules, message=message, reason=reason)


def _written(request: OpenCodeRequest, call: Call) -> Iterator[str]:
    members: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) and call.tool_name else {}
    yield from file_members(members)
    if isinstance(patch := members.get("patchText"), str):
        yield from patched(patch)
    if not members:
        yield from request.patterns


def _of_files(request: OpenCodeRequest, call: Call, places: OpenCodePlaces, rules: CompiledRules) -> Iterator[Part]:
    known = rules.of(request.permission)
    of_tool = None if call.tool_name in (None, request.permission) else rules.of(call.tool_name)
    for path in _written(request, call):
        for form in spelled_paths(path, places.directory, places.home, places.facts):
            text = places.from_worktree(form)
            if (rule := restricting(text, known)) is not None:
                yield _part(text, rule.action, rule.refs)
            own = None if of_tool is None else restricting(text, of_tool)
            if own is not None and is_restricted_apart(own, request.permission):
                yield _part(text, own.action, own.refs)
            if is_of_a_process(form) or "\0" in path:
                yield _part(path.replace("\0", "␀"), Verdict.ASK)


def _of_search(call: Call, places: OpenCodePlaces, rules: CompiledRules) -> Iterator[Part]:
    """Yield the files of which a search shows lines, judged by the rules for `read`."""
    members: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) else {}
    path, include = (text if isinstance(text := members.get(name), str) else "" for name in ("path", "include"))
    globs = [posixpath.join(path, one) for one in picked(include, is_deep=True)]
    yield from _asking([path, *globs] if path else globs, places, rules.of("read"))


def _asking(texts: Sequence[str], places: OpenCodePlaces, rules: PermissionRules) -> Iterator[Part]:
    for path in texts:
        for form in spelled_paths(path, places.directory, places.home, places.facts):
            for text in with_inside(places.from_worktree(form)):
                if (rule := restricting(text, rules)) is not None:
                    yield _part(path, Verdict.ASK, rule.refs)


def _of_addresses(patterns: Sequence[str], rules: CompiledRules) -> Iterator[Part]:
    known = rules.of(FETCH)
    for pattern in patterns:
        address = read_address(pattern)
        for text in _spellings(address):
            if (rule := restricting(text, known)) is not None:
                yield _part(text, rule.action, rule.refs)
        if not address.texts and known.restricting:
            yield _part(pattern, Verdict.ASK)
        plain = address.texts[0] if address.texts else ""
        if plain and not address.is_clear and not _allowed(plain, known):
            yield _part(plain, Verdict.ASK)


def _spellings(address: UrlReading) -> Iterator[str]:
    """Yield the texts that a rule may be written for; only the host of an address that cannot be parsed."""
    yield from address.texts
    if not address.texts:
        yield from (f"{scheme}://{host}/" for host in sorted(address.hosts) for scheme in ("https", "http"))


def _allowed(text: str, rules: PermissionRules) -> bool:
    """Return whether a rule allows an address, with or without the slash at its end."""
    found = [last_match(one, rules) for one in (text, text.removesuffix("/"))]
    return any(rule is not None and rule.action is Verdict.ALLOW for rule in found)


def _part(text: str, verdict: Verdict, rules: tuple[RuleRef, ...] = ()) -> Part:
    return Part(text, verdict, rules, liftable=False)
