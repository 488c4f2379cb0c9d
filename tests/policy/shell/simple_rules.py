"""The simplest rules that a table of commands needs: prefix, glob, glob over the full text, whole tool."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from ledger.core.policy import Evaluation, RuleRef, Verdict
from ledger.policy.facts import NoFacts
from ledger.policy.matching import whole_glob
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import spells
from ledger.policy.shell.model import Access, Analysis, CommandRules, Ruling, ShellCommand, Spelling
from ledger.policy.spelled import leads_out

ROOT = "/repo"
UNDECIDED = Evaluation(Verdict.ALLOW)  # a faithful profile that allows everything: the analysis stands alone


class SimpleRules(CommandRules):
    """Rules as written in tests/data/policy/shell.json: `kind words`, for example `prefix git status`."""

    def __init__(self, allow: Sequence[str], deny: Sequence[str] = (), paths: Sequence[str] = ()) -> None:
        self.allows = [rule.partition(" ")[::2] for rule in allow]
        self.denies = [rule.partition(" ")[::2] for rule in deny]
        self.paths = paths

    def allow(self, command: ShellCommand) -> Ruling | None:
        words = [word.resolved for word in command.words]
        for kind, text in self.allows:
            wanted = text.split()
            if (
                kind == "tool"
                or (kind == "prefix" and words[: len(wanted)] == wanted)
                or (kind == "glob" and whole_glob(text)(command.text))
            ):
                return _ruling(Verdict.ALLOW, kind, text, spelled=True)
        return None

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        for kind, text in self.allows:
            if kind == "exact" and text == command.text:
                return _ruling(Verdict.ALLOW, kind, text)
        return None

    def allow_line(self, analysis: Analysis) -> Ruling | None:
        for kind, text in self.allows:
            if kind == "glob_full" and spells(text, analysis):
                return _ruling(Verdict.ALLOW, kind, text)
        return None

    def restrict(self, spelling: Spelling) -> Ruling | None:
        for kind, text in self.denies:
            wanted = tuple(text.split())
            if (kind == "prefix" and spelling.words[: len(wanted)] == wanted) or (
                kind == "glob" and whole_glob(text)(spelling.text)
            ):
                return _ruling(Verdict.DENY, kind, text)
        return None

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        whole = posixpath.normpath(posixpath.join(directory, path))
        return _ruling(Verdict.DENY, "path", path) if whole in self.paths else None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        return [tuple(text.split()) for kind, text in self.denies if kind == "prefix"]

    def restricting(self) -> tuple[str, ...]:
        return tuple(text for kind, text in self.denies if kind in ("prefix", "glob"))

    def outside(self, path: str, directory: str) -> bool:
        return leads_out(path, directory, (ROOT,), NoFacts())

    def enter(self, directory: str, target: str) -> str | None:
        whole = posixpath.normpath(posixpath.join(directory, target))
        return whole if whole == ROOT or whole.startswith(ROOT + "/") else None


def _ruling(verdict: Verdict, kind: str, text: str, *, spelled: bool = False) -> Ruling:
    return Ruling(verdict, (RuleRef(f"{kind} {text}"),), spelled=(tuple(text.split()),) if spelled else ())


def judge(command: str, allow: Sequence[str], deny: Sequence[str] = (), paths: Sequence[str] = ()) -> Evaluation:
    return hardened(command, UNDECIDED, SimpleRules(allow, deny, paths), ROOT)


def verdict(command: str, allow: Sequence[str], deny: Sequence[str] = (), **others: Any) -> Verdict:
    return judge(command, allow, deny, **others).verdict
