"""BRUTUS rules for one command in the hardened profile."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from ledger.core.policy import Verdict, strictest
from ledger.policy.brutus.bash import CommandPlace
from ledger.policy.brutus.judge import BrutusJudge
from ledger.policy.brutus.rules import Compiled
from ledger.policy.reach import leads_out
from ledger.policy.shell import Access, CommandRules, Ruling, ShellCommand, Spelling, SpellingForm
from ledger.policy.spelled import spelled_paths, with_inside
from ledger.policy.toolrules.commands import visible_text
from ledger.policy.toolrules.paths import within

ACCESS_PERMISSION = {Access.READ: "read", Access.EDIT: "edit"}


class BrutusCommands(CommandRules):
    """Rules and grants of one call; `files` judge the paths of redirections.

    `asks_first`: folders outside of the project are asked about in a call of their own.
    """

    def __init__(
        self, judge: BrutusJudge, files: dict[Access, BrutusJudge], place: CommandPlace, *, asks_first: bool = False
    ) -> None:
        self.judge, self.files, self.place, self.asks_first = judge, files, place, asks_first

    def allow(self, command: ShellCommand) -> Ruling | None:
        if command.assignments:
            return None
        return self._allowing(visible_text(command.words))

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        if command.assignments:
            return None
        text = " ".join(word.raw for word in command.words)
        rule = self.judge.find(text).rule
        if rule is None or rule.action is not Verdict.ALLOW or {"*", "?"} & set(text) or rule.rule.pattern != text:
            return None
        return Ruling(Verdict.ALLOW, rule.refs)

    def _allowing(self, text: str) -> Ruling | None:
        rule, grants = self.judge.find(text)
        if rule is not None and rule.action is Verdict.ALLOW:
            return Ruling(Verdict.ALLOW, rule.refs, spelled=self._spelled(text))
        return Ruling(Verdict.ALLOW, (), grants, self._spelled(text)) if grants else None

    def _spelled(self, text: str) -> tuple[tuple[str, ...], ...]:
        """Return the words of all rules and grants that allow a command: one may name more than the deciding one."""
        rules = [one for one in self.judge.rules if one.action is Verdict.ALLOW and one.pattern(text)]
        granted = [one for _, one in self.judge.grants.about(text) if one.pattern(text)]
        return tuple(dict.fromkeys(tuple(one.rule.pattern.split()) for one in (*rules, *granted)))

    def restrict(self, spelling: Spelling) -> Ruling | None:
        """Apply the configured rules.

        A catch-all applies only to the written spelling; a catch-all ask does not apply to a guarded `cd`.
        """
        rule, grants = self.judge.find(spelling.text)
        if rule is None or rule.action is Verdict.ALLOW or grants:
            return None
        guarded = rule.action is Verdict.ASK and spelling.words[0] == "cd"
        if rule.catch_all and (guarded or spelling.form is not SpellingForm.WRITTEN):
            return None
        return Ruling(rule.action, rule.refs)

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Apply the rules for `read` and `edit` to the path as written, absolute, and relative to the project."""
        whole = posixpath.normpath(posixpath.join(directory, path))
        forms = [path, whole]
        if self.place.holds(whole):
            forms.append(posixpath.relpath(whole, self.place.project))
        found = [rule for form in forms if (rule := self.files[access].find(form).rule)]
        for action in (Verdict.DENY, Verdict.ASK):
            deciding = next((rule for rule in found if rule.action is action), None)
            if deciding is not None:
                return Ruling(action, deciding.refs)
        return None

    def guards_files(self) -> bool:
        return any(
            rule.action is not Verdict.ALLOW and not rule.catch_all for one in self.files.values() for rule in one.rules
        )

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        forms = spelled_paths(path, directory, self.place.home, self.place.facts)
        named = dict.fromkeys((path, *forms, *map(self._from_project, forms)))
        texts = [text for one in named for text in with_inside(one)]
        found = [rule for access in accesses for text in texts if (rule := self.files[access].restricting(text))]
        strict = strictest(rule.action for rule in found) if found else None
        rule = next((rule for rule in found if rule.action is strict), None)
        return None if rule is None else Ruling(rule.action, rule.refs)

    def _from_project(self, path: str) -> str:
        return posixpath.relpath(path, self.place.project) if self.place.holds(path) else path

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        found = (_words(rule) for rule in self.judge.rules if rule.action is not Verdict.ALLOW)
        return [words for words in found if words]

    def restricting(self) -> tuple[str, ...]:
        rules = (rule for rule in self.judge.rules if rule.action is not Verdict.ALLOW and not rule.catch_all)
        return tuple(rule.rule.pattern for rule in rules)

    def outside(self, path: str, directory: str) -> bool:
        return not self.asks_first and leads_out(
            path, directory, (self.place.project,), self.place.facts, self.place.home
        )

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Apply the rules for `read` and `edit`, inside the project."""
        if leads_out(path, directory, (self.place.project,), self.place.facts, self.place.home):
            return None
        whole = posixpath.normpath(posixpath.join(directory, path))
        inner = posixpath.relpath(whole, self.place.project) if self.place.holds(whole) else whole
        rule = self.files[access].find(inner).rule
        return None if rule is None or rule.action is not Verdict.ALLOW else Ruling(Verdict.ALLOW, rule.refs)

    def enter(self, directory: str, target: str) -> str | None:
        """Return the path as the shell keeps it, which may leave the project neither as written nor by its links."""
        facts, project = self.place.facts, self.place.project
        written = posixpath.join(directory, target)
        lexical = "/" + posixpath.normpath(written).lstrip("/")
        root = facts.resolve(project)
        real = all(within(facts.resolve(path), root) for path in (lexical, written))
        return lexical if real and (within(lexical, project) or within(lexical, root)) else None


def _words(rule: Compiled) -> tuple[str, ...]:
    words = [word.strip("*") for word in rule.rule.pattern.split(" ")]
    return tuple(word for word in words if word)
