"""Value types of the shell analysis, the order in which commands may run, and the interface of a dialect's rules.

A dialect reads `Analysis` and `ShellCommand` and implements `CommandRules`; `ledger.policy.shell.hardened` combines the
two and is the same for all dialects. `directories` interprets `Step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.facts import FileFacts, NoFacts


class Flow(StrEnum):
    """The kinds of a step."""

    LIST = "list"  # `operators[i]` is between part i and part i + 1
    PIPE = "pipe"
    ALONE = "alone"  # a subshell: its directory changes affect no other command
    NOT = "not"
    LOOP = "loop"  # the parts in order, any number of times
    CHOICE = "choice"  # conditions and bodies alternate; the body of `else` is last


class Step(msgspec.Struct, frozen=True):
    """Part of a line. A part that is a number is an index into the commands that the line itself runs."""

    flow: Flow
    parts: tuple[int | Step, ...]
    operators: tuple[str, ...] = ()


def straight(operators: Sequence[str]) -> Step:
    """Return the flow of simple commands joined by operators, which are one fewer than the commands."""
    parts, joints, pipe = list[int | Step](), list[str](), [0]
    for index, operator in enumerate((*operators, "\n"), 1):
        if operator in ("|", "|&"):
            pipe.append(index)
            continue
        parts.append(pipe[0] if len(pipe) == 1 else Step(Flow.PIPE, tuple(pipe)))
        joints.append(operator)
        pipe = [index]
    return Step(Flow.LIST, tuple(parts), tuple(joints[:-1]))


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """One word of a command.

    `raw` is the source text. `resolved` is the text after quote removal, or None when the shell determines it only at
    run time (a variable, a substitution, brace expansion, `$'…'` with an unknown escape). `quoted` is true if at least
    one quote or backslash was removed, `glob` if the word has an unquoted `*`, `?` or `[` (in `resolved` as written),
    `tilde` if it begins with an unquoted `~` (also as written). The other fields describe a word that is not resolved.
    `prefix` is the common beginning of its possible texts ("" when unknown, 0 for a number), and None when the reader
    does not determine it. `several` is true if it may become several words, or none; `inside` if each of them is a path
    below the folder in which the line starts, or below `prefix` if that is a full path; `operand` if it is one word
    that begins with a letter or digit.
    """

    raw: str
    resolved: str | None
    quoted: bool = False
    glob: bool = False
    tilde: bool = False
    prefix: str | None = None
    several: bool = False
    inside: bool = False
    operand: bool = False


class Assignment(msgspec.Struct, frozen=True):
    """`NAME=value` in front of a command, or alone. `name` includes the subscript of an array element."""

    name: str
    value: Word


class Redirect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A redirection: the operator with its descriptor (`2>>`, `<`, `&>`, `2>&`, `<<`) and its target.

    The target of a here-document is its delimiter, and that of a here-string its word. `text` is the source text.
    """

    operator: str
    target: Word
    text: str


class Wrapper(StrEnum):
    """The kind of wrapper around an unwrapped command."""

    TRANSPARENT = "transparent"  # timeout, nice, nohup, time, stdbuf: a rule for the inner command may allow it
    OPAQUE = "opaque"  # sudo, env, xargs, find -exec, …: only deny and ask rules apply to the inner command
    SCRIPT = "script"  # bash -c, eval, trap, …: a text that a shell reads again


class ShellCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    """One simple command that would run.

    `text` is its source text, trimmed, without redirections; `statement` is the same with them (including a
    here-document's body). For a command that unwrapping created, both are its words joined by one space. `inside` is
    the text of the command that runs this one (by a substitution in one of its words, or as a wrapper), None for a
    command that the line runs itself, at any depth of groups and control flow. `wrapper` is the kind of wrapper around
    it, None for a command of the grammar. `words` does not include assignments. `fed` is the value of each line of its
    standard input, as a word; None if unknown.
    """

    text: str
    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    statement: str = ""
    inside: str | None = None
    wrapper: Wrapper | None = None
    fed: Word | None = None

    @property
    def name(self) -> str | None:
        """Return the resolved first word; None without words or if its value is known only when the line runs."""
        return self.words[0].resolved if self.words else None


class Construct(StrEnum):
    """A construct beyond simple commands, as a sentence why a dialect may ask about a line with it."""

    SUBSHELL = "a sub-shell is not analysed"
    GROUP = "a group is not analysed"
    BACKGROUND = "`&` runs a command in the background"
    VARIABLE = "a variable is known only when the line runs"
    SUBSTITUTION = "a substitution runs another command"
    BRACES = "braces expand to several words"
    DOCUMENT = "a here-document feeds a text to the command"
    ASSIGNMENT = "a variable is set for later commands"
    ENVIRONMENT = "a variable is set in front of a command"
    QUOTED = "a part of a text is known only when the line runs"
    LOOP = "a loop"


class Analysis(msgspec.Struct, frozen=True, omit_defaults=True):
    """The commands that a line would run.

    Only `plain` lines may be allowed. `reason` is a sentence why a line is not plain, and None for a plain one.
    `commands` are all that would run, in source order, each followed by those inside it. `operators` are those between
    the commands of a plain line, in order (`&&`, `||`, `;`, `|`, `|&` or a newline). `redirects_only` is true when only
    redirections to or from files keep the line from being plain; `operators` is then set too. `cut` is true when
    commands are missing because a bound of counted steps was reached. `flow` is the order in which the commands of a
    plain line with loops, groups, variables or substitutions may run; None for a line that `operators` describe
    completely. In a line with `flow`, all commands have `inside` None, including those in substitutions; variables are
    replaced by their values; and a command without words holds the redirections of a compound. `constructs` are those
    of a line with `flow`.
    """

    plain: bool
    reason: str | None
    commands: tuple[ShellCommand, ...]
    operators: tuple[str, ...] = ()
    redirects_only: bool = False
    cut: bool = False
    flow: Step | None = None
    constructs: frozenset[Construct] = frozenset()

    @property
    def top(self) -> tuple[ShellCommand, ...]:
        """Return the commands that the line runs itself, without those inside them."""
        return tuple(command for command in self.commands if command.inside is None)


class SpellingForm(StrEnum):
    """The origin of a spelling."""

    WRITTEN = "written"  # source text and raw words
    NORMAL = "normal"  # as a rule writes the same meaning
    RESOLVED = "resolved"  # without quotes, assignments and redirections
    BASENAME = "basename"  # as resolved, the program by the last part of its path


class Spelling(msgspec.Struct, frozen=True):
    """One way to write a command, for deny and ask rules. `words` are never empty; `text` is for globs."""

    form: SpellingForm
    text: str
    words: tuple[str, ...]


class Access(StrEnum):
    """The access of a redirection to a file, in the terms of path rules."""

    READ = "read"
    EDIT = "edit"


class Ruling(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict of rules (or grants, by id) on one command or path.

    `spelled` are the words, wildcards included, of each rule and grant that allows the command; empty for a rule that
    names no command.
    """

    verdict: Verdict
    rules: tuple[RuleRef, ...] = ()
    grants: tuple[str, ...] = ()
    spelled: tuple[tuple[str, ...], ...] = ()


class CommandRules(Protocol):
    """The rules and grants of a dialect, applied to one command. Pure; grants count as allow rules.

    Subclass it and override what the dialect supports; the defaults allow nothing and restrict nothing.
    """

    def allow(self, command: ShellCommand) -> Ruling | None:
        """Return the allow rule that names this command by its own words, interpreted narrowly; None without one.

        The command is one that the line runs itself, or the inner one of a transparent wrapper. Its redirections are
        not judged here. Quotes that hide a word boundary must not satisfy a rule.
        """
        return None

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        """Return an allow rule without wildcards that equals the whole command, which may have a dangerous argument."""
        return None

    def allow_statement(self, command: ShellCommand) -> Ruling | None:
        """Return an allow rule or grant without wildcards that equals the command with its redirections."""
        return None

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Return the allow rule for a file inside the project that a redirection reads or edits. `path` is literal."""
        return None

    def allows_everything(self) -> bool:
        """Return whether the last of all rules allows every permission and pattern, so no other rule is in force."""
        return False

    def allow_line(self, analysis: Analysis) -> Ruling | None:
        """Return an allow rule for the full text that spells every operator and redirection (`glob.spells`)."""
        return None

    def restrict(self, spelling: Spelling) -> Ruling | None:
        """Return the deny or ask rule that matches this spelling, interpreted broadly; None without one.

        A command that no rule matches also gives None: `allow` covers that case. A catch-all (`*`, the bare tool)
        counts only for the form `WRITTEN`, since for the other forms it would repeat its ruling. A catch-all *ask* does
        not count for `cd` in a dialect that guards it. Called for commands at any depth and behind any wrapper.
        """
        return None

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Return the deny or ask rule that matches a file which a redirection reads or edits.

        `path` is as resolved (it may begin with `~` or contain a glob), `directory` is where the command runs.
        """
        return None

    def guards_files(self) -> bool:
        """Return whether a rule restricts particular files, so that every word of a command is examined."""
        return False

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        """Return the strictest deny or ask rule about particular files that matches a file which a word may name.

        `path` is as written in a word, and a shell glob if it contains `*`, `?`, `[` or `overlap.UNKNOWN`; `directory`
        is a possible directory of the command. A rule about every file there does not count.
        """
        return None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        """Return the words of each deny (and ask) rule for commands, without wildcards at the end, for near misses.

        Only rules with an option among their words are relevant.
        """
        return ()

    def restricting(self) -> tuple[str, ...]:
        """Return the text of each deny and ask rule for commands, wildcards included, words separated by blanks."""
        return ()

    def facts_of_files(self) -> FileFacts:
        """Return what is known about the files that a line names."""
        return NoFacts()

    def outside(self, path: str, directory: str) -> bool:
        """Return whether a path that a command names in `directory` leads outside the agent's folders."""
        return False

    def enter(self, directory: str, target: str) -> str | None:
        """Return the directory of `cd target` from `directory`, links resolved; None outside the agent's folders.

        `directory` is the one given to `hardened`, or an earlier result.
        """
        return None

    def guards_cd(self) -> bool:
        """Return whether `enter` judges `cd`, which then needs no allow rule (all dialects but betcode)."""
        return True


def accesses(redirect: Redirect) -> tuple[Access, ...]:
    """Return the accesses of a redirection to its target; none for here-documents and descriptors."""
    kind = redirect.operator.lstrip("0123456789")
    target = redirect.target.resolved
    if kind.startswith("<<") or target == "/dev/null":
        return ()
    if kind in (">&", "<&") and target is not None and target.rstrip("-").isdigit():
        return ()
    return {"<": (Access.READ,), "<&": (Access.READ,), "<>": (Access.READ, Access.EDIT)}.get(kind, (Access.EDIT,))
