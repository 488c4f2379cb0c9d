"""The hardened evaluation of a command line, the same for every dialect and never looser than the faithful one.

An allow holds only if the line is plain and a rule allows each of its commands by its own words. Deny and ask rules
apply to every command at any depth. The documentation of the policy dialects has the definition.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.core.policy import Evaluation, Part, RuleRef, Verdict, strictest
from ledger.policy.facts import FileKind
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.danger import (
    dangerous_argument,
    in_table,
    never_allowed,
    runs_anything,
    speaks_of,
    unknown_word,
)
from ledger.policy.shell.directories import Directories
from ledger.policy.shell.files import NamedFiles
from ledger.policy.shell.forms.nodes import NormalForm
from ledger.policy.shell.forms.objections import Reach, Spelled, obstacle, worry
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.forms.respelling import (
    TAILS_COUNT,
    Restricted,
    by_meaning,
    names_of,
    near_miss,
    rule_about,
    spelled_again,
    tails,
    with_options,
)
from ledger.policy.shell.model import (
    Access,
    Analysis,
    CommandRules,
    Redirect,
    Ruling,
    ShellCommand,
    Spelling,
    SpellingForm,
    Word,
    accesses,
    straight,
)
from ledger.policy.shell.names import basename
from ledger.policy.shell.parse import is_grammatical
from ledger.policy.shell.tables import is_product, is_protected
from ledger.policy.shell.unwrap import inmost, parts_of, peeled
from ledger.policy.shell.words import join_lines, loosen, shorten, strange_character, too_long

_MOVING: Final = frozenset({"cd", "chdir", "pushd", "popd"})


def understood(source: str, analysis: Analysis, rules: CommandRules, directory: str) -> bool:
    """Return whether rules that allow everything allow this line: no part is hidden, and its files are allowed."""
    if analysis.cut or too_long(source) or strange_character(source) is not None:
        return False
    if not is_grammatical(join_lines(source)) or not all(map(_is_known, analysis.commands)):
        return False
    redirecting = [one for one in analysis.commands if any(map(accesses, one.redirects))]
    moves = any(one.name in _MOVING for one in analysis.commands)
    return not (redirecting and moves) and all(
        redirects_allowed(one, rules, (directory,), directory) for one in redirecting
    )


def _is_known(command: ShellCommand) -> bool:
    if command.assignments:
        return False
    if not command.words:
        return True
    inner = peeled(command)
    return never_allowed(inner) is None and worry(inner) is None


def redirects_allowed(command: ShellCommand, rules: CommandRules, directories: Sequence[str], start: str) -> bool:
    """Return whether the rules allow every redirection of a command to access its file, in all its directories.

    None covers a file that affects what later commands do; `start` is where the line began. What a program without a
    table reads may be a program to it, so only a rule covers that.
    """
    return all(
        _is_literal(redirect)
        and (ruling := rules.allow_path(access, redirect.target.resolved or "", directory)) is not None
        and (access is Access.EDIT or ruling.rules or not command.words or form_of(peeled(command)) is not None)
        and not (access is Access.EDIT and writes_protected(rules, redirect.target.resolved or "", directory, start))
        for redirect in command.redirects
        for access in accesses(redirect)
        for directory in directories
    )


def writes_protected(rules: CommandRules, path: str, place: str, start: str) -> bool:
    """Return whether a path affects what later commands do, as written or where its links lead."""
    if is_protected(path, place, start):
        return True
    full, resolve = posixpath.join(place, path), rules.facts_of_files().resolve
    if not (full.startswith("/") and start.startswith("/")):
        return False
    real = resolve(full)
    return real != posixpath.normpath(full) and is_protected(posixpath.relpath(real, resolve(start)))


def planted_repository(rules: CommandRules, place: str, start: str) -> str | None:
    """Return the folder, from `place` up to the one where the line began, that git takes for a repository without a work tree.

    Its configuration can name programs, and it can stand in any commit, unlike a folder `.git`.
    """
    kind = rules.facts_of_files().kind
    while place.startswith(f"{start.rstrip('/')}/") and start.startswith("/"):
        if kind(f"{place}/HEAD") is FileKind.FILE and kind(f"{place}/objects") is FileKind.DIRECTORY:
            return place
        place = posixpath.dirname(place)
    return None


def _is_literal(redirect: Redirect) -> bool:
    target = redirect.target
    return bool(target.resolved) and not target.glob and not target.tilde


_Key = str | tuple[str, tuple[Word, ...]]


class _Finding(msgspec.Struct, frozen=True):
    """A reason why a command (or redirection) is not allowed. `liftable`: a grant for its own words would help."""

    text: str
    verdict: Verdict
    reason: str
    rules: tuple[RuleRef, ...] = ()
    inside: str | None = None
    liftable: bool = False


def hardened(
    command_line: str,
    faithful: Evaluation,
    rules: CommandRules,
    directory: str = ".",
    analysis: Analysis | None = None,
) -> Evaluation:
    """Return the stricter of `faithful` and the analysis of `command_line` under `rules`.

    `directory` is where the line starts, in the terms of `rules.enter`. `analysis` saves a second analysis. A grant can
    no longer lift a part that the analysis made stricter. Commands that decided and have no part in `faithful` are
    appended with the text that contains them (`Part.inside`).
    """
    if faithful.verdict is Verdict.DENY:
        return faithful
    analysis = analysis or analyse(command_line)
    judge = _Judge(analysis, rules, directory)
    # Without repeats: a line may have many thousand equal commands.
    findings = list(dict.fromkeys((*judge.restrictions(), *judge.obstacles())))
    covered = analysis.plain or (analysis.redirects_only and judge.redirections_allowed())
    covered = covered or (rules.allows_everything() and understood(command_line, analysis, rules, directory))
    spelled = {_collapse(one.text): _collapse(one.statement) for one in analysis.top if one.redirects}
    return _combine(command_line, faithful, findings, spelled, None if covered else analysis.reason)


class _Judge:
    def __init__(self, analysis: Analysis, rules: CommandRules, directory: str) -> None:
        self.rules = rules
        self.commands = analysis.commands
        self.plain = analysis.plain or analysis.redirects_only
        self.top = analysis.top
        restricted = rules.restricted_words() if self.plain else ()
        self.restricted: Restricted = with_options(restricted)
        self.near = by_meaning(tuple(" ".join(words) for words in restricted if any(one[:1] == "-" for one in words)))
        self.forms: dict[_Key, NormalForm | None] = {}
        self.meant = by_meaning(rules.restricting())
        self.is_restricted = names_of(rules.restricting())
        self.line: Ruling | None = rules.allow_line(analysis) if self.plain else None
        self.everything = rules.allows_everything()
        self.allowed: dict[_Key, bool] = {}
        self.paths: dict[tuple[Access, str, frozenset[str]], list[Ruling]] = {}
        self.guards_cd = rules.guards_cd()
        self.named = NamedFiles(rules, self.commands, directory)
        # A line without commands of its own also has a directory, for its redirections.
        self.start, start = directory, frozenset({directory})
        self.places: Sequence[frozenset[str]] = [start] * max(len(self.top), 1)
        self.leaves: set[int] = set()
        if self.plain and self.guards_cd and any(command.name == "cd" for command in self.top):
            flow = analysis.flow or straight(analysis.operators)
            directories = Directories(self.top, flow, directory, rules.enter)
            self.places, self.leaves = directories.places, directories.leaves

    def restrictions(self) -> Iterator[_Finding]:
        """Yield the deny and ask rulings on every command in every spelling, and on every redirection."""
        index = -1
        seen: dict[tuple[str | None, _Key], tuple[_Finding, ...]] = {}
        for command in self.commands:
            index += command.inside is None
            key = (command.inside, _key(command))
            if key not in seen:
                seen[key] = (*self._spelled(command), *self._named(command))
            yield from seen[key]
            if command.redirects:
                yield from self._redirected(command, self.places[max(index, 0)])

    def _spelled(self, command: ShellCommand) -> Iterator[_Finding]:
        for spelling in self._spellings(command):
            ruling = self.rules.restrict(spelling)
            if ruling is not None and ruling.verdict is not Verdict.ALLOW:
                verb = "denies" if ruling.verdict is Verdict.DENY else "asks about"
                reason = f"a rule {verb} `{spelling.text}`"
                own = spelling.form is SpellingForm.WRITTEN and command.inside is None
                yield _Finding(command.text, ruling.verdict, reason, ruling.rules, command.inside, liftable=own)

    def _spellings(self, command: ShellCommand) -> Iterator[Spelling]:
        """Yield the spellings of a command.

        The inner command of a runner (`npx`, `uv run`) is judged with the runner, so none of its spellings is `WRITTEN`
        and a catch-all does not count again.
        """
        is_wrapped = command.wrapper is not None and not runs_anything((command.inside or "").partition(" ")[0])
        for spelling in (*spellings(command), *self._as_rules_write(command)):
            is_written = spelling.form is SpellingForm.WRITTEN
            yield replace(spelling, form=SpellingForm.RESOLVED) if is_wrapped and is_written else spelling

    def _as_rules_write(self, command: ShellCommand) -> Iterator[Spelling]:
        """Yield the command in the spelling of each rule about it: `rm -R -f x` as `rm -rf x`."""
        form = self._form(command) if self.meant else None
        if form is None:
            return
        known = {spelling.words for spelling in spellings(command)}
        for words in spelled_again(command, form, self.meant):
            if words not in known:
                known.add(words)
                yield Spelling(SpellingForm.NORMAL, " ".join(words), words)

    def _named(self, command: ShellCommand) -> Iterator[_Finding]:
        """Yield the rulings of file rules on the words of a command.

        An ask does not count if an allow rule spells the whole command.
        """
        for ruling, reason in self.named.restrictions(command, self._form(command)):
            if ruling.verdict is Verdict.DENY or not self._exactly(command, inmost(command)):
                yield _Finding(command.text, ruling.verdict, reason, ruling.rules, command.inside)

    def _redirected(self, command: ShellCommand, places: frozenset[str]) -> Iterator[_Finding]:
        for redirect in command.redirects:
            path = loosen(redirect.target)
            text = f"{redirect.operator} {redirect.target.raw}"
            for access in accesses(redirect):
                for ruling in self._paths(access, path, places):
                    reason = f"a rule restricts what `{text}` does with a file"
                    yield _Finding(text, ruling.verdict, reason, ruling.rules, command.text or None)

    def _paths(self, access: Access, path: str, places: frozenset[str]) -> list[Ruling]:
        key = (access, path, places)
        if key not in self.paths:
            rulings = [self.rules.restrict_path(access, path, place) for place in sorted(places)]
            self.paths[key] = [ruling for ruling in rulings if ruling and ruling.verdict is not Verdict.ALLOW]
        return self.paths[key]

    def obstacles(self) -> Iterator[_Finding]:
        """Yield why commands of a plain line are not allowed.

        A line that is not plain asks as a whole, so it yields nothing.
        """
        if not self.plain:
            return
        seen: dict[tuple[_Key, frozenset[str]], str | None] = {}
        for index, command in self._judged():
            if self.guards_cd and command.name == "cd":
                reason = (
                    f"`{command.text}` may leave the folders that the agent may use" if index in self.leaves else None
                )
            else:
                places = self.places[index]
                key = (_key(command), places)
                if key not in seen:
                    seen[key] = self._obstacle(command, places)
                reason = seen[key]
            if reason is not None:
                yield _Finding(command.text, Verdict.ASK, reason)
            elif not self._allowed(command):
                reason = f"no rule allows `{inmost(command).text}` by its own words"
                yield _Finding(command.text, Verdict.ASK, reason, liftable=True)

    def _judged(self) -> Iterator[tuple[int, ShellCommand]]:
        """Yield the commands that rules must allow, with their indexes.

        Redirections of a compound are judged elsewhere.
        """
        for index, command in enumerate(self.top):
            parts = parts_of(command) if command.words else ()
            whole = len(parts) > 1 and self._exactly(command, command)
            yield from ((index, part) for part in ((command,) if whole else parts))

    def _obstacle(self, command: ShellCommand, places: frozenset[str]) -> str | None:
        """Return the reason why at most a rule that spells the whole command may allow it; None without one."""
        inner = inmost(command)
        reason = never_allowed(inner) or _bad_name(inner) or (None if self.everything else self._unknown(inner))
        if reason is not None:
            return reason
        if self.guards_cd and inner.name == "cd":
            return f"`{command.text}` runs `cd` through another program, which no rule covers"
        if self._exactly(command, inner):
            return None
        reason = self._unmeant(inner, places) or self._restricted_tail(inner) or self._in_planted(inner, places)
        if reason is not None:
            return reason
        near = near_miss(inner, self.restricted) or self._near_in_meaning(inner)
        if near is not None:
            return f"it is close to `{' '.join(near)}`, which a rule restricts"
        return None

    def _in_planted(self, command: ShellCommand, places: frozenset[str]) -> str | None:
        if basename(command.name or "") != "git":
            return None
        found = next((one for place in places if (one := planted_repository(self.rules, place, self.start))), None)
        return None if found is None else f"`{found}` holds a repository whose configuration may run programs"

    def _restricted_tail(self, command: ShellCommand) -> str | None:
        """Return why a program that no table knows may run what a rule restricts: its later words say that."""
        if self._form(command) is not None:
            return None
        for count, tail in enumerate(tails(command, self.is_restricted), 1):
            said = (*spellings(tail), *self._as_rules_write(tail))
            if count == TAILS_COUNT or any(
                self.rules.restrict(replace(one, form=SpellingForm.RESOLVED)) is not None for one in said
            ):
                return f"`{command.name}` is unknown, and may run `{shorten(tail.text)}`, which a rule restricts"
        return None

    def _near_in_meaning(self, command: ShellCommand) -> tuple[str, ...] | None:
        """Return the words of a rule with an option that has this meaning, but whose pattern does not match it."""
        form = self._form(command)
        return None if form is None else rule_about(command, form, self.near)

    def allows(self, command: ShellCommand, places: frozenset[str]) -> bool:
        """Return whether rules allow another command's inner command as if it ran alone."""
        reason = never_allowed(command) or _bad_name(command)
        return reason is None and self._unmeant(command, places) is None and self.rules.allow(command) is not None

    def _unknown(self, inner: ShellCommand) -> str | None:
        """Return the reason against words of unknown value: a rule that restricts the program may apply to them."""
        if all(word.resolved is not None for word in inner.words):
            return None
        form = self._form(inner)
        found = unknown_word(inner, form)
        if found is None and any(speaks_of(rule, inner, form) for rule in self.rules.restricting()):
            return f"a rule restricts `{inner.name}`, and not all words of `{inner.text}` are known"
        return found

    def _unmeant(self, command: ShellCommand, places: frozenset[str]) -> str | None:
        """Return the reason why no rule that allows the command can be meant for it."""
        if self.everything and any(word.resolved is None for word in command.words):
            return worry(command)  # as in a line that is not plain: see `understood`
        form = self._form(command)
        if form is None and in_table(command.name or ""):
            return dangerous_argument(command)
        ruling = self.rules.allow(command)
        rules = (ruling.spelled if ruling is not None else ()) or ((),)
        spelled = [Spelled(words, command.words) for words in rules]
        reach = _Reach(self, places)
        found = [obstacle(command, form, one, reach) for one in spelled]
        return None if None in found else found[0]

    def _form(self, command: ShellCommand) -> NormalForm | None:
        key = _key(command)
        if key not in self.forms:
            self.forms[key] = form_of(command)
        return self.forms[key]

    def redirections_allowed(self) -> bool:
        """Return whether rules allow all redirections.

        A rule spells the line or the command with its redirections, or rules allow every file that they name.
        """
        return self.line is not None or all(
            self.rules.allow_statement(command) is not None
            or redirects_allowed(command, self.rules, sorted(self.places[index]), self.start)
            for index, command in enumerate(self.top)
        )

    def _exactly(self, command: ShellCommand, inner: ShellCommand) -> bool:
        if command.redirects and self.rules.allow_statement(command) is not None:
            return True
        if self.rules.allow_exactly(inner) is not None:
            return True
        return inner is not command and self.rules.allow_exactly(command) is not None

    def _allowed(self, command: ShellCommand) -> bool:
        if self.line is not None or (self.guards_cd and command.name == "cd"):
            return True
        key = _key(command)
        if key not in self.allowed:
            inner = inmost(command)
            allowed = self.rules.allow(inner) is not None or self._exactly(command, inner)
            self.allowed[key] = allowed
        return self.allowed[key]


class _Reach(Reach):
    """The file rules for all folders in which a command may run."""

    def __init__(self, judge: _Judge, places: frozenset[str]) -> None:
        self.judge, self.rules, self.places = judge, judge.rules, places

    def outside(self, path: str) -> bool:
        return any(self.rules.outside(path, place) for place in self.places)

    def protected(self, path: str) -> bool:
        return any(writes_protected(self.rules, path, place, self.judge.start) for place in self.places)

    def editable(self, path: str) -> bool:
        return all(self.rules.allow_path(Access.EDIT, path, place) is not None for place in self.places)

    def overwrites(self, path: str) -> bool:
        kind = self.rules.facts_of_files().kind
        full = (posixpath.join(place, path) for place in self.places)
        return not is_product(path) and any(one.startswith("/") and kind(one) is not None for one in full)

    def allows(self, command: ShellCommand) -> bool:
        return self.judge.allows(command, self.places)


def _key(command: ShellCommand) -> _Key:
    """Return the key of a command: commands with equal keys are judged alike.

    The key is the text, with the words if the value of one of them is unknown.
    """
    if all(word.resolved is not None for word in command.words):
        return command.text
    return command.text, command.words


def _bad_name(command: ShellCommand) -> str | None:
    """Return why a command's name is not plain, or None.

    The lexer has checked only names that are not behind a wrapper.
    """
    word, name = command.words[0], command.name or ""
    if word.glob or word.tilde or not name.isascii() or not name.isprintable() or " " in name or "=" in name:
        return f"the name `{word.raw}` is not a plain one"
    return None


def spellings(command: ShellCommand) -> tuple[Spelling, ...]:
    """Return the spellings of a command that deny and ask rules are matched against, without repeats."""
    if not command.words:
        return ()
    raw = tuple(word.raw for word in command.words)
    written = Spelling(SpellingForm.WRITTEN, command.text, raw)
    plain = tuple(map(loosen, command.words))
    name = basename(plain[0])
    if plain == raw and name == raw[0] and not command.assignments and command.text == " ".join(raw):
        return (written,)
    found = [written, Spelling(SpellingForm.RESOLVED, " ".join(plain), plain)]
    if name != plain[0]:
        based = (name, *plain[1:])
        found.append(Spelling(SpellingForm.BASENAME, " ".join(based), based))
    return tuple(found)


def _combine(
    command_line: str,
    faithful: Evaluation,
    findings: Sequence[_Finding],
    spelled: Mapping[str, str],
    line_reason: str | None,
) -> Evaluation:
    """Merge the findings into the faithful evaluation.

    `spelled` maps a command's text to its text with redirections, which a dialect may use in its parts.
    """
    parts = [_unliftable(part) for part in faithful.parts] if line_reason is not None else list(faithful.parts)
    known: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        known.setdefault(_collapse(part.text), []).append(index)
    for text, statement in spelled.items():
        known.setdefault(text, known.get(statement, []))
    appended: dict[tuple[str, str | None], int] = {}
    for finding in findings:
        places = known.get(_collapse(finding.text), []) if finding.inside is None or _is_redirect(finding) else []
        if not places and (finding.text, finding.inside) not in appended:
            appended[finding.text, finding.inside] = len(parts)
            parts.append(Part(finding.text, Verdict.ALLOW, inside=finding.inside))
        for index in places or [appended[finding.text, finding.inside]]:
            parts[index] = _raised(parts[index], finding)
    floor = Verdict.ASK if line_reason is not None else Verdict.ALLOW
    verdict = strictest([faithful.verdict, floor, *(finding.verdict for finding in findings)])
    if verdict is not faithful.verdict and not any(part.verdict is verdict for part in parts):
        parts.append(Part(command_line.strip(), verdict, liftable=False))
    return _evaluation(faithful, verdict, tuple(parts), findings, line_reason)


def _evaluation(
    faithful: Evaluation,
    verdict: Verdict,
    parts: tuple[Part, ...],
    findings: Sequence[_Finding],
    line_reason: str | None,
) -> Evaluation:
    deciding = [finding for finding in findings if finding.verdict is verdict]
    reasons = [shorten(finding.reason) for finding in deciding[:1]]
    if line_reason is not None and verdict is Verdict.ASK:
        reasons.insert(0, line_reason)
    if verdict is faithful.verdict:
        return replace(faithful, parts=parts, reason=faithful.reason or (reasons[0] if reasons else None))
    determining = tuple(dict.fromkeys(rule for finding in deciding for rule in finding.rules))
    message = None
    if verdict is Verdict.DENY:
        message = f"Denied by rule: {determining[0].text if determining else reasons[0]}"
    return replace(faithful, verdict=verdict, parts=parts, rules=determining, message=message, reason=reasons[0])


def _raised(part: Part, finding: _Finding) -> Part:
    if part.verdict is Verdict.DENY or (part.verdict is finding.verdict and finding.verdict is Verdict.ALLOW):
        return part
    if part.verdict is finding.verdict:
        return part if finding.liftable else replace(part, liftable=False)
    return replace(part, verdict=finding.verdict, rules=finding.rules, liftable=False, grants=())


def _unliftable(part: Part) -> Part:
    verdict = Verdict.ASK if part.verdict is Verdict.ALLOW else part.verdict
    changed = verdict is not part.verdict
    return replace(
        part,
        verdict=verdict,
        liftable=False,
        rules=() if changed else part.rules,
        grants=() if changed else part.grants,
    )


def _is_redirect(finding: _Finding) -> bool:
    return finding.text[:1] in "<>&0123456789"


def _collapse(text: str) -> str:
    return " ".join(text.split())
