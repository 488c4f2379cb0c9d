"""The words of the shell analysis: what a line would run, and what rules are asked about it.

Everything here is a value or a small interface. A dialect reads `Analysis` and `Command` and implements `CommandRules`;
`ledger.policy.shell.hardened` combines the two and is the same for all dialects.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.shell.flow import Step


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """One word of a command.

    `raw` is the source text. `resolved` is the text after quote removal, or None when the shell works it out only when
    it runs (a variable, a substitution, brace expansion, `$'…'` with an escape that is not understood). `quoted` says
    that at least one quote or backslash was taken away, `glob` that an unquoted `*`, `?` or `[` stands in it (it stands
    in `resolved` as written), `tilde` that it begins with an unquoted `~` (also as written).
    Of a word that is not resolved, `prefix` is the beginning that every text it may stand for has ("" when nothing is
    known), and None when the reader that made it does not tell; of a number it is 0. `several` says that it may be
    several words, or none, and `inside` that each of them is a path below the folder in which the line starts; `operand` says
    that it is one word that begins with a letter or digit.
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
    """`NAME=value` in front of a command, or alone; `name` holds the subscript of an array element too."""

    name: str
    value: Word


class Redirect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A redirection: the operator with its descriptor (`2>>`, `<`, `&>`, `2>&`, `<<`) and its target.

    The target of a here-document is its delimiter and that of a here-string its word. `text` is the source text.
    """

    operator: str
    target: Word
    text: str


class Wrapper(StrEnum):
    """Through what kind of wrapper an unwrapped command was found."""

    TRANSPARENT = "transparent"  # timeout, nice, nohup, time, stdbuf: a rule for the inner command may allow it
    OPAQUE = "opaque"  # sudo, env, xargs, find -exec, …: only deny and ask rules look inside
    SCRIPT = "script"  # bash -c, eval, trap, …: a text that a shell reads again


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """One simple command that would run.

    `text` is its source text, trimmed, without redirections; `statement` is the same with them (a here-document's body
    included). A command that was made up by unwrapping has its words joined by one space as both.
    `inside` is the text of the command that runs this one (by a substitution in one of its words, or as a wrapper),
    None for a command that the line runs itself, at whatever depth of groups and control flow. `wrapper` says how it
    was unwrapped and is None for one that the grammar shows. `words` does not hold assignments. `fed` is what is known of
    each line of its standard input, as a word; None when nothing is.
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
        """The resolved first word; None without one or when it is known only when it runs."""
        return self.words[0].resolved if self.words else None


class Analysis(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a line would run.

    `plain` lines alone may be allowed; `reason` says in one sentence why a line is not plain, and is None when it is.
    `commands` are all that would run, in source order, each followed by those inside it. `operators` are those between
    the commands of a plain line, in order (`&&`, `||`, `;`, `|`, `|&` or a newline). `redirects_only` is true when
    nothing but redirections to or from files keeps the line from being plain; `operators` then holds as well. `cut` says
    that commands are missing, because a bound of counted steps was reached. `flow` is the order in which the commands of
    a plain line with loops, groups, variables or substitutions may run; None for one that `operators` tell all about.
    In such a line all its commands have `inside` None, those in substitutions too, variables are replaced by what they
    stand for, and a command without words holds the redirections of a compound.
    """

    plain: bool
    reason: str | None
    commands: tuple[Command, ...]
    operators: tuple[str, ...] = ()
    redirects_only: bool = False
    cut: bool = False
    flow: Step | None = None

    @property
    def top(self) -> tuple[Command, ...]:
        """The commands that the line runs itself, without those inside them."""
        return tuple(command for command in self.commands if command.inside is None)


class Form(StrEnum):
    """How a spelling of a command came about."""

    WRITTEN = "written"  # source text and raw words
    NORMAL = "normal"  # as a rule writes the same meaning
    RESOLVED = "resolved"  # quotes, assignments and redirections taken away
    BASENAME = "basename"  # as resolved, the program by the last part of its path


class Spelling(msgspec.Struct, frozen=True):
    """One way to write a command, for deny and ask rules. `words` are never empty; `text` is for globs."""

    form: Form
    text: str
    words: tuple[str, ...]


class Access(StrEnum):
    """What a redirection does with a file, in the words of path rules."""

    READ = "read"
    EDIT = "edit"


class Ruling(msgspec.Struct, frozen=True, omit_defaults=True):
    """What rules (or grants, by id) say about one command or path.

    `spelled` are the words of each rule and grant for commands that allows it, wildcards included; none for a rule that
    names no command.
    """

    verdict: Verdict
    rules: tuple[RuleRef, ...] = ()
    grants: tuple[str, ...] = ()
    spelled: tuple[tuple[str, ...], ...] = ()


class CommandRules(Protocol):
    """How a dialect's rules and grants look at one command. Pure; grants count as allow rules.

    Subclass it and override what the dialect has; the defaults allow nothing and restrict nothing.
    """

    def allow(self, command: Command) -> Ruling | None:
        """The allow rule that names this command by its own words, read narrowly; None without one.

        The command is one that the line runs itself, or the inner one of a transparent wrapper. Never ask about its
        redirections here. A rule must not be satisfied by quotes that hide a word boundary.
        """
        return None

    def allow_exactly(self, command: Command) -> Ruling | None:
        """An allow rule without any wildcard that equals the whole command; it may hold a dangerous argument."""
        return None

    def allow_statement(self, command: Command) -> Ruling | None:
        """An allow rule or grant without any wildcard that equals the command with its redirections."""
        return None

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """The allow rule for a file inside the project that a redirection reads or edits; `path` is literal."""
        return None

    def allows_everything(self) -> bool:
        """Whether the last rule of all allows every permission and every pattern, so that nothing else is in force."""
        return False

    def allow_line(self, analysis: Analysis) -> Ruling | None:
        """An allow rule for the full text that spells every operator and redirection one for one (`glob.spells`)."""
        return None

    def restrict(self, spelling: Spelling) -> Ruling | None:
        """The deny or ask rule that reaches this spelling, read widely; None when no rule does.

        "No rule at all" is None too: `allow` says that. A catch-all (`*`, the bare tool) counts for `Form.WRITTEN`
        only, since for the other forms it would say no more than it already said; a catch-all *ask* does not count
        for `cd` in a dialect that guards it. Called for commands at any depth and behind any wrapper.
        """
        return None

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """The deny or ask rule that reaches a file which a redirection reads or edits.

        `path` is as resolved (it may begin with `~` or hold a glob), `directory` where the command runs.
        """
        return None

    def guards_files(self) -> bool:
        """Return whether a rule restricts particular files, so that every word of a command is looked at."""
        return False

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        """Return the deny or ask rule about particular files that reaches one which a word of a command may name.

        The strictest one, if several do.

        `path` is as a word has it, and a glob of the shell where it holds `*`, `?`, `[` or `meeting.UNKNOWN`; `directory`
        is where the command may run. A rule about every file there does not count.
        """
        return None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        """The words of each deny (and ask) rule for commands, wildcards at the end left out, for near misses.

        Only rules with an option among their words matter.
        """
        return ()

    def restricting(self) -> tuple[str, ...]:
        """The text of each deny and ask rule for commands, wildcards included, words separated by blanks."""
        return ()

    def outside(self, path: str, directory: str) -> bool:
        """Whether a path that a command names in `directory` leads out of what the agent may touch."""
        return False

    def enter(self, directory: str, target: str) -> str | None:
        """Where `cd target` leads from `directory`, links resolved; None when it would leave what the agent may enter.

        `directory` is the one given to `hardened`, or an earlier answer.
        """
        return None

    def guards_cd(self) -> bool:
        """Whether `cd` is judged by `enter` and needs no allow rule (all dialects but betcode)."""
        return True
