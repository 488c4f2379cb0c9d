"""Paths and Claude Code's rules: the boundary of the project, protected files, and rules that match a path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.matching.paths import PathMatcher, ignore_glob, ignore_reaches
from ledger.policy.reach import within
from ledger.policy.shell.model import Access
from ledger.policy.spelled import ANY_FILE
from ledger.policy.toolrules.paths import ACCESS_RULE, absolute, is_access_rule, relative, split_root
from ledger.policy.toolrules.policy import ToolRuleOptions
from ledger.policy.toolrules.rule import ToolRule
from ledger.policy.unknown import UNKNOWN_FOLDER, UNKNOWN_HOME, is_unknown, possible_roots

USER, FLAG, MANAGED = "user", "flag", "managed"
_MANAGED_FOLDER: Final = "/etc/claude-code"

PROTECTED_FOLDERS: Final = frozenset(
    {".git", ".claude", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn"}
)
"""The program's own list; the hardened profile has a few more for files that commands write."""
PROTECTED_FILES: Final = frozenset({
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshrc", ".zprofile", ".zshenv", ".zlogin",
    ".profile", ".gitconfig", ".gitmodules", ".ripgreprc", ".mcp.json", ".pre-commit-config.yaml", ".lefthook.yml", "lefthook.yml", ".bazelrc", ".bunfig.toml", "bunfig.toml", ".claude.json", ".npmrc", ".yarnrc",
    ".yarnrc.yml", ".envrc",
})  # fmt: skip
"""Files that can change the effect of later commands; never written without asking."""

_WORKTREES: Final = "/.claude/worktrees/"


class ClaudePlaces:
    """Rules with a path, for one working directory."""

    def __init__(self, options: ToolRuleOptions, rules: Sequence[ToolRule]) -> None:
        self.cwd, self.base, self.home, self.facts = options.cwd, options.base, options.home, options.facts
        self._is_placed = options.is_placed
        self.rules = [rule for rule in rules if rule.specifier is not None]
        self._real_cwd = options.facts.resolve(options.cwd)
        self._resolved: dict[str, str] = {}  # one call may name the same file many thousand times

    def guards(self) -> bool:
        """Return whether a rule restricts particular files."""
        return any(one.action is not Verdict.ALLOW and one.tool in ACCESS_RULE.values() for one in self.rules)

    def absolute(self, path: str) -> str:
        return absolute(path, self.base, self.home)

    def forms(self, path: str) -> tuple[str, ...]:
        """Return an absolute path as written and with its links followed."""
        resolved = self._resolve(path)
        return (path,) if resolved == path else (path, resolved)

    def _resolve(self, path: str) -> str:
        known = self._resolved.get(path)
        if known is None:
            known = self._resolved[path] = self.facts.resolve(path)
        return known

    def inside(self, path: str) -> bool:
        """Return whether a path is in the working directory in both forms."""
        return self._is_placed and within(path, self.cwd) and within(self._resolve(path), self._real_cwd)

    def protected(self, path: str) -> bool:
        for form in self.forms(path):
            names = form.casefold().split("/")
            folders = PROTECTED_FOLDERS & {*names}
            if folders == {".claude"} and _WORKTREES in form:
                continue
            if names[-1] in PROTECTED_FILES or folders:
                return True
        return False

    def critical(self, path: str) -> bool:
        """Return whether removal is always asked: `/` and its children, the home, the project and its parents."""
        bare = path.rstrip("/") or "/"
        return bare.count("/") <= 1 or bare == (self.home or UNKNOWN_HOME) or within(self.cwd, bare)

    def reaching(self, action: Verdict, access: Access, path: str) -> list[tuple[ToolRule, bool]]:
        """Return the rules of one action that match a path in any form, each with whether it matches it as written."""
        found = []
        forms = self.forms(path)
        for rule in self.rules:
            if rule.action is action and is_access_rule(rule, access):
                reached = [self._reaches(rule, form) for form in forms]
                if any(reached):
                    found.append((rule, reached[0]))
        return found

    def allowing(self, access: Access, path: str) -> list[ToolRule]:
        """Return the allow rules that together cover every form of a path; empty if one form is not covered.

        An allow to change a file also allows reading it.
        """
        kinds = (Access.READ, Access.EDIT) if access is Access.READ else (Access.EDIT,)
        rules: list[ToolRule] = []
        for form in self.forms(path):
            covering = [
                rule
                for rule in self.rules
                if rule.action is Verdict.ALLOW
                and any(is_access_rule(rule, kind) for kind in kinds)
                and self._reaches(rule, form)
            ]
            if not covering:
                return []
            rules += covering
        return list(dict.fromkeys(rules))

    def covers(self, rule: ToolRule, path: str) -> bool:
        """Return whether one rule covers every form of a path."""
        return all(self._reaches(rule, form) for form in self.forms(path))

    def restricting(self, action: Verdict, access: Access, forms: Sequence[str]) -> tuple[ToolRule, ...]:
        """Return the rules of one action that match a file in any form."""
        return tuple(
            rule
            for rule in self.rules
            if rule.action is action
            and is_access_rule(rule, access)
            and any(self._reaches(rule, form) for form in forms)
        )

    def naming(self, action: Verdict, access: Access, forms: Sequence[str]) -> tuple[ToolRule, ...]:
        """Return the rules of one action about particular files that match any form of a file; a form may be a glob."""
        return tuple(
            rule
            for rule in self.rules
            if rule.action is action
            and is_access_rule(rule, access)
            and any(self._reaches(rule, form, ignore_reaches) and self._is_particular(rule, form) for form in forms)
        )

    def _is_particular(self, rule: ToolRule, form: str) -> bool:
        """Return whether the form is outside the project, or the rule does not match every file of the project."""
        return not within(form, self.cwd) or not self._reaches(rule, f"{self.cwd}/{ANY_FILE}")

    def _reaches(self, rule: ToolRule, form: str, glob: Callable[[str], PathMatcher] = ignore_glob) -> bool:
        root, pattern = self._root(rule)
        if root is None:
            return False
        bases = {root, self._real_cwd} if root == self.cwd else {root}
        if is_unknown(root):
            bases = self._of_unknown(rule, root, form)
        for base in bases:
            inner = relative(form, base)
            if inner is not None and glob(pattern)(inner):
                return True
        return False

    def _of_unknown(self, rule: ToolRule, root: str, form: str) -> set[str]:
        """Return the folders that an unknown root may be; none for a rule that allows."""
        if rule.action is Verdict.ALLOW:
            return {root} if root == UNKNOWN_FOLDER and self._is_placed else set()
        return {*possible_roots(root, form)}

    def _root(self, rule: ToolRule) -> tuple[str | None, str]:
        """Return the root of a pattern and its rest; `/x` is relative to its settings file, rootless for --settings."""
        spelt, rest = split_root(rule.specifier or "")
        if spelt == "//":
            return "/", rest
        if spelt == "~/":
            return self.home or UNKNOWN_HOME, rest
        if spelt == "/" and rule.layer == USER:
            folder = "/.claude"
            return (self.home + folder, rest) if self.home else (UNKNOWN_HOME, folder + rest)
        if spelt == "/":
            return {FLAG: None, MANAGED: _MANAGED_FOLDER}.get(rule.layer, self.cwd), rest
        return self.cwd, rest
