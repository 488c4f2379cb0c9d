"""Reasons why an allow rule does not cover a command, by its normal form, and the paths that a command names. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching import whole_glob
from ledger.policy.shell.danger import dangerous_argument, never_allowed
from ledger.policy.shell.forms.nodes import Effect, Given, NormalForm, OperandKind, Operands, OperandWord, program_table
from ledger.policy.shell.forms.reduction import form_of, form_of_words
from ledger.policy.shell.model import ShellCommand, Word, accesses
from ledger.policy.shell.tables import is_protected
from ledger.policy.shell.tables.operands import ELSEWHERE
from ledger.policy.shell.words import loosen

_PATH_EFFECTS = frozenset({Effect.READ, Effect.WRITE, Effect.OUTPUT, Effect.FOLDER})
_PATH_KINDS = frozenset(
    {OperandKind.READ, OperandKind.WRITE, OperandKind.EDIT, OperandKind.OUTPUT, OperandKind.FOLDER, OperandKind.SCRIPT}
)
_MAYBE_PATHS = frozenset({OperandKind.NAME, OperandKind.URL})
_LEAVES = late_pattern(r"(?:\.\.|~)(?:/|\Z)")
_GLUED = late_pattern(r"-[A-Za-z](?=[/~.])")


def named_paths(command: ShellCommand) -> tuple[str, ...]:
    """Return the paths that a command reads, writes or works in, without repeats, as written."""
    form = form_of(command)
    words = [loosen(word) for word in command.words[1:]]
    found = _of_words(words) if form is None else _of_form(form)
    return tuple(dict.fromkeys(found))


def _of_form(form: NormalForm) -> Iterator[str]:
    for given in form.options:
        if given.value is not None and (given.effect in _PATH_EFFECTS or leaves(given.value)):
            yield given.value
    for operand in form.operands:
        if operand.kind in _PATH_KINDS or (operand.kind in _MAYBE_PATHS and leaves(operand.text)):
            yield operand.text
        elif operand.kind is OperandKind.WORDS:
            yield from paths_in(operand.text)
    if form.inner is not None:
        yield from named_paths(form.inner)


def leaves(text: str) -> bool:
    """Return whether a name or a value is spelled as a path out of the folder: `../other`, `~/other`."""
    return _LEAVES.match(text) is not None


def _of_words(words: list[str]) -> Iterator[str]:
    for word in words:
        yield from paths_in(word)


def paths_in(word: str) -> list[str]:
    """Return the possible paths in a word of unknown meaning.

    They are the word itself, a value attached to an option letter, and the texts after separators.
    """
    found = [] if word.startswith("-") else [word]
    found += re.split(r"[=:,@]", word)[1:]
    glued = _GLUED.match(word)
    if glued is not None:
        found.append(word[glued.end() :])
    return [one for one in found if one]


class Reach:
    """A dialect's rules about files, for the folders in which a command may run; here without any, so no path is an obstacle."""

    def outside(self, path: str) -> bool:
        """Return whether a path may lead outside the agent's folders."""
        return False

    def protected(self, path: str) -> bool:
        """Return whether a path affects what later commands do."""
        return is_protected(path)

    def editable(self, path: str) -> bool:
        """Return whether rules allow a tool to change a file."""
        return True

    def overwrites(self, path: str) -> bool:
        """Return whether something is at a path that is no product of a program, as far as is known."""
        return False

    def allows(self, command: ShellCommand) -> bool:
        """Return whether rules allow a command by itself."""
        return False


class _Anywhere(Reach):
    """The file rules for a blanket rule, which covers every command in any folder: those for another folder after `cd`."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach

    def outside(self, path: str) -> bool:
        return self.reach.outside(".") and self.reach.outside(path)

    def protected(self, path: str) -> bool:
        return self.reach.protected(path)

    def editable(self, path: str) -> bool:
        return self.reach.editable(path)

    def overwrites(self, path: str) -> bool:
        return self.reach.overwrites(path)

    def allows(self, command: ShellCommand) -> bool:
        return self.reach.allows(command)


def worry(command: ShellCommand) -> str | None:
    """Return why only a rule that spells the command may cover it, wherever it runs: a sentence, or None.

    Judged by the table of its program, or by the listed dangerous arguments if it has none. Words whose value is known
    only when the line runs are judged by the list alone.
    """
    form = form_of(command)
    unknown = {at for at, word in enumerate(command.words) if word.resolved is None}
    listed = dangerous_argument(command) if form is None or unknown else None
    if form is None or listed is not None:
        return listed
    known = replace(
        form,
        unclear=tuple(one for one in form.unclear if one.at not in unknown),
        operands=tuple(replace(one, is_known=True) for one in form.operands),
    )
    return obstacle(command, known, Spelled((), command.words), Reach())


_WILD: Final = "*?"


class Spelled:
    """One rule's words beside the words of a command. `first` is the index of the command's first word in `words`."""

    def __init__(self, rule: Sequence[str], words: Sequence[Word], first: int = 0) -> None:
        self.rule, self.words, self.first = rule, words, first
        self.literal_count = 0
        for spelt, word in zip(rule, words, strict=False):
            if _is_wild(spelt) or spelt not in (word.raw, word.resolved):
                break
            self.literal_count += 1
        self.is_blanket = not rule or not rule[0].strip(_WILD)
        """True if the rule covers any command."""
        self.options = frozenset(one for one in rule if one.startswith("-") and not _is_wild(one))

    def __contains__(self, at: int) -> bool:
        """Return whether the rule spells the word at an index: in its literal beginning, or as an option anywhere."""
        at += self.first
        return at < self.literal_count or self.words[at].raw in self.options

    def names(self, at: int) -> bool:
        """Return whether the rule spells the word or its beginning: `scripts/*` names `scripts/a.sh`."""
        if at in self:
            return True
        at += self.first
        text = self.words[at].resolved
        if at != self.literal_count or at >= len(self.rule) or text is None or self.words[at].glob:
            return False
        pattern = self.rule[at]
        return pattern[0] not in _WILD and ".." not in text.split("/") and whole_glob(pattern)(text)

    def is_open(self) -> bool:
        """Return whether the rule says how the program is used, with a long option, and then covers any words: `node --test *`."""
        begins, ends = self.rule[: self.literal_count], self.rule[self.literal_count :]
        return any(one.startswith("--") for one in begins) and ends in ((), ("*",))

    def task(self, at: int) -> str | None:
        """Return the task that the rule names at an index: `lint` for `lint*`, which means more words and not other tasks."""
        at += self.first
        pattern = self.rule[at] if at == self.literal_count and at < len(self.rule) else ""
        return pattern[:-1] if pattern[-1:] == "*" and pattern[-2:-1].isalnum() else None

    def astray(self) -> Iterator[str]:
        """Yield an obstacle for each word that a pattern of the rule matches, and that leads elsewhere: `dist/../src` for `dist/*`."""
        for pattern, word in zip(self.rule, self.words, strict=False):
            text, covers = word.resolved or "", whole_glob(pattern)
            if ".." not in text.split("/") or pattern[:1] in _WILD:
                continue
            if covers(text) and not covers(posixpath.normpath(text)):
                yield f"`{text}` leads elsewhere than the rule says"

    def inner(self, by: int) -> Spelled:
        """Return the same rule for a command that begins `by` words later."""
        return Spelled(self.rule, self.words, self.first + by)


def _is_wild(word: str) -> bool:
    return any(mark in word for mark in _WILD)


_ADDRESS = late_pattern(r"[A-Za-z0-9+.-]:(?://|\\\\)|\A[\w.-]+@[\w.-]+:", re.ASCII)
_LOOKS_LIKE_A_COMMAND = late_pattern(r"[\s;&|`$()<>]")
STREAMS: Final = frozenset({"-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})
_LOOKS_LIKE_CODE = late_pattern(r"""[()\[\]{}"'`]|\A\.[A-Za-z]\w*\s|\A!""")
_RUNS = late_pattern(
    r"--(?:[\w-]*-)?(?:command|cmd|exec|program|binary|shell|pager|editor|runner|hook|script|config|config-file|rules?|plugin|require|load|eval)\Z"
)
_WRITES = late_pattern(
    r"-o\Z|--(?:[\w-]*-)?(?:out|output|outfile|in-?place|write|save|overwrite|dest|destination)(?:-|\Z)", re.IGNORECASE
)
_SETS_A_PATH = late_pattern(r"[\w.-]*[\w.]=(?:\.{0,2}|~)/")
"""`ui.pager=./x`. Options begin with a dash, and are left out."""
_HERE: Final = "."
_NOT_NAMED: Final = frozenset({OperandKind.TEXT, OperandKind.WORDS, OperandKind.CODE, OperandKind.PROGRAM, None})
_UNPACKING: Final = {"tar": "--get", "unzip": "", "git apply": "", "git am": ""}
_CONTENTS: Final = ("/", "/.", "/*")
_SHOWING: Final = frozenset({
    "--to-stdout", "-l", "-p", "-t", "-v", "-z", "-Z", "--check", "--stat", "--numstat", "--summary", "--abort", "--show-current-patch",
})  # fmt: skip
"""Commands that write files of names which only an archive or a patch has, with the option that it takes; options that only show."""
_UNLISTED: Final = Operands((OperandKind.WORDS,), OperandKind.NAME)
"""Words of a sub-command that no table has: its name, then names."""
_OTHERS: Final = frozenset({
    "--all", "--all-namespaces", "--tags", "--branches", "--mirror", "--prune", "--selector", "--field-selector", "--filter",
    "--context", "--cluster", "--namespace", "--kubeconfig", "--server", "--host", "--profile", "--region", "--project",
    "--account", "--subscription", "--workspace", "--workspaces", "--force",
})  # fmt: skip
"""Options that choose more than the operands, or the same names in another place."""
_TELLS: Final = frozenset({"--version", "--help"})


def obstacle(command: ShellCommand, form: NormalForm | None, spelled: Spelled, reach: Reach) -> str | None:
    """Return why an allow rule that spells these words does not cover a command; None if it does.

    `form` is the normal form of the command, None if its program has no table.
    """
    return next(_obstacles(command, form, spelled, reach), None)


def _obstacles(command: ShellCommand, form: NormalForm | None, spelled: Spelled, reach: Reach) -> Iterator[str]:
    yield from spelled.astray()
    if form is None:
        yield from () if spelled.is_blanket else _of_unknown(command, spelled, reach)
        return
    title = " ".join((form.program, *form.path))
    if any(node.always for node in form.nodes):
        if not only_tells(command, form):
            yield f"`{title}` runs, sends or overwrites what it is given"
        return
    yield from (one.reason for one in form.unclear if one.at not in spelled)
    named = zip((0, *form.path_at), form.nodes, strict=True)
    if any(node.spell and at not in spelled for at, node in named):
        yield f"`{title}` needs a rule that names it"
    for given in form.options:
        if not _spells(spelled, given):
            yield from _option(given, form, title, reach)
    beyond = _Anywhere(reach) if spelled.is_blanket else reach
    for operand in form.operands:
        yield from _operand(operand, form, title, spelled, beyond)
    if form.edits and not any(operand.kind is OperandKind.READ for operand in form.operands):
        yield from _edited(_HERE, title, reach)
    others = [one.at for one in form.operands if one.kind is OperandKind.WORDS]
    if form.program in ELSEWHERE and any(spelled.names(one.at) for one in form.operands):
        yield from _commands_elsewhere(command, form, spelled)
    yield from _unpacked(form, title, reach)
    if not spelled.is_blanket:
        yield from _more_than_named(form, title, spelled)
        yield from _unknown_program(command.words, spelled, reach, others)
    if form.inner is not None:
        if form.nodes[-1].inner_allowed and reach.allows(form.inner):
            return
        yield from _inner(form.inner, spelled.inner(len(command.words) - len(form.inner.words)), reach)


def only_tells(command: ShellCommand, form: NormalForm) -> bool:
    """Return whether `--help` or `--version`, possibly abbreviated, is the only argument.

    A short name does not count: `-v` of an interpreter may print its version and then read a program.
    """
    names = [given.name for given in form.options if given.effect is Effect.PLAIN and given.value is None]
    is_long = len(command.words) == 2 and (command.words[1].resolved or "").startswith("--")
    return is_long and len(names) == 1 and names[0] in _TELLS


def _spells(spelled: Spelled, given: Given) -> bool:
    return given.at in spelled and (given.value_at is None or given.value_at in spelled)


def _inner(command: ShellCommand, spelled: Spelled, reach: Reach) -> Iterator[str]:
    """Yield obstacles of a runner's inner command: a rule must name it, and then covers it as if it ran alone."""
    if not spelled.names(0):
        yield f"`{command.words[0].raw}` is a program that the rule does not name"
        return
    reason = never_allowed(command)
    if reason is not None:
        yield reason
    yield from _obstacles(command, form_of_words(command.words), spelled, reach)


def _option(given: Given, form: NormalForm, title: str, reach: Reach) -> Iterator[str]:
    shown = given.name if given.value is None else f"{given.name} {given.value}"
    match given.effect:
        case Effect.ASKS:
            yield f"`{given.name}` makes `{title}` run, read or send something else"
        case Effect.CODE | Effect.PROGRAM:
            yield f"`{shown}` is code that the rule does not spell out"
        case Effect.READ:
            yield from _inside(given.value or "", title, reach)
        case Effect.FOLDER:
            yield from _inside(given.value or "", title, reach)
            if reach.protected(given.value or ""):
                yield f"`{title}` works in `{given.value}`, which affects what later commands do"
        case Effect.OUTPUT:
            yield from _product(given.value or "", title, reach)
            if reach.overwrites(given.value or "") or form.path[-1:] == ("clean",):
                yield from _edited(given.value or "", title, reach)
        case Effect.WRITE:
            yield from _edited(given.value or "", title, reach)
        case Effect.PLAIN | Effect.URL if leaves(given.value or ""):
            yield from _inside(given.value or "", title, reach)
        case Effect.PLAIN | Effect.EDITS | Effect.URL:
            pass


def _operand(operand: OperandWord, form: NormalForm, title: str, spelled: Spelled, reach: Reach) -> Iterator[str]:
    match operand.kind:
        case OperandKind.EDIT | OperandKind.READ if form.edits or operand.kind is OperandKind.EDIT:
            yield from _edited(operand.text, title, reach, is_known=operand.is_known)
        case OperandKind.READ | OperandKind.FOLDER:
            if operand.at not in spelled:
                yield from _inside(operand.text, title, reach, is_known=operand.is_known)
        case OperandKind.WRITE | OperandKind.OUTPUT:
            if operand.at not in spelled:
                yield from _product(operand.text, title, reach, is_known=operand.is_known)
        case OperandKind.CODE:
            if operand.at not in spelled:
                yield f"`{operand.text}` is code that the rule does not spell out"
        case OperandKind.SCRIPT:
            yield from _script(operand, title, spelled, reach)
        case OperandKind.TASK if (task := spelled.task(operand.at)) is not None and task != operand.text:
            yield f"the rule names the task `{task}`, and `{title}` runs `{operand.text}`"
        case OperandKind.NAME | OperandKind.URL if leaves(operand.text) and operand.at not in spelled:
            yield from _inside(operand.text, title, reach, is_known=operand.is_known)
        case (
            OperandKind.TEXT
            | OperandKind.NAME
            | OperandKind.TASK
            | OperandKind.URL
            | OperandKind.PROGRAM
            | OperandKind.WORDS
        ):
            pass


def _commands_elsewhere(command: ShellCommand, form: NormalForm, spelled: Spelled) -> Iterator[str]:
    """Yield commands in one word for the container that the rule names: `docker run IMAGE sh -c '…'`."""
    for one in form.operands:
        if one.kind is OperandKind.TEXT and one.at not in spelled and _is_command_value(command.words, one.at):
            yield f"the rule does not spell `{one.text}`, which `{form.program}` runs elsewhere"


def _unpacked(form: NormalForm, title: str, reach: Reach) -> Iterator[str]:
    """Yield why files of unknown names may not be unpacked into a folder: into the project as a whole never without a person."""
    names = [one for one in form.operands if posixpath.normpath(one.text) != _HERE or one.text.endswith("/.")]
    if form.program == "ln" and (linked := next((one.text for one in names if reach.protected(one.text)), None)):
        yield f"a link would lead to `{linked}`, which affects what later commands do"
    into = form.operands[-1] if form.operands and form.operands[-1].kind is OperandKind.OUTPUT else None
    if (
        into is not None
        and posixpath.normpath(into.text) == _HERE
        and any(one.text.endswith(_CONTENTS) for one in names)
    ):
        yield f"`{title}` puts files of unknown names into the project, where some affect what later commands do"
    needed = _UNPACKING.get(title)
    if needed is None or (needed and needed not in form.names) or form.names & _SHOWING:
        return
    folder = next((one.value for one in form.options if one.value and one.effect in (Effect.FOLDER, Effect.OUTPUT)
                   and one.name != "--file"), None)  # fmt: skip
    if folder is None or posixpath.normpath(folder) == _HERE:
        yield f"`{title}` unpacks over the project, where some files affect what later commands do"
    else:
        yield from _edited(folder, title, reach)


def _script(operand: OperandWord, title: str, spelled: Spelled, reach: Reach) -> Iterator[str]:
    if spelled.is_open():
        yield from _inside(operand.text, title, reach, is_known=operand.is_known)
    elif not spelled.names(operand.at):
        yield f"`{operand.text}` is a program that the rule does not name"


def _more_than_named(form: NormalForm, title: str, spelled: Spelled) -> Iterator[str]:
    """Yield what is named beside an operand that the rule names: it covers the operands that it names, and not more of them."""
    kinds = form.nodes[-1].operands or _UNLISTED
    if kinds.many in _NOT_NAMED:
        return
    first = len(kinds.first)
    if first and form.operands and "/" in form.operands[0].text:
        first = 0  # `deploy/web` is a kind and a name
    repeated = form.operands[first : len(form.operands) - len(kinds.last)]
    named = next((one for one in repeated if spelled.names(one.at)), None)
    if named is None:
        return
    for other in repeated:
        if not spelled.names(other.at):
            yield f"the rule names `{named.text}`, and `{title}` is also given `{other.text}`"
    for given in form.options:
        if given.name in _OTHERS and not _spells(spelled, given):
            yield f"the rule names `{named.text}`, and `{given.name}` makes `{title}` choose others"


def _inside(path: str, title: str, reach: Reach, *, is_known: bool = True) -> Iterator[str]:
    if path not in STREAMS and (not is_known or reach.outside(path)):
        yield f"`{path}`, which `{title}` reads, may be outside of the project"


def _product(path: str, title: str, reach: Reach, *, is_known: bool = True) -> Iterator[str]:
    if path in STREAMS:
        return
    if not is_known or reach.outside(path):
        yield f"`{path}`, which `{title}` writes, may be outside of the project"
    elif reach.protected(path):
        yield f"`{path}`, which `{title}` writes, affects what later commands do"


def _edited(path: str, title: str, reach: Reach, *, is_known: bool = True) -> Iterator[str]:
    yield from _product(path, title, reach, is_known=is_known)
    if path not in STREAMS and not reach.editable(path):
        yield f"no rule allows `{title}` to change `{path}`"


# --- programs that have no table
def _of_unknown(command: ShellCommand, spelled: Spelled, reach: Reach) -> Iterator[str]:
    yield from _unknown_program(command.words, spelled, reach, range(1, len(command.words)))
    yield from _code(command.words, spelled)
    yield from _said_to_do_more(command, spelled, reach)


def _unknown_program(words: Sequence[Word], spelled: Spelled, reach: Reach, places: Sequence[int]) -> Iterator[str]:
    for at in places:
        if at in spelled:
            continue
        word = words[at]
        if word.resolved is None:
            yield f"`{word.raw}` is known only when the line runs"
        elif _ADDRESS.search(word.resolved):
            yield f"`{word.raw}` names an address, and the program is unknown"
        elif _is_command_value(words, at):
            yield f"`{word.raw}` looks like a command, and the program is unknown"
        elif any(reach.outside(path) for path in paths_in(word.resolved)):
            yield f"`{word.raw}` may lead out of the project, and the program is unknown"


def _said_to_do_more(command: ShellCommand, spelled: Spelled, reach: Reach) -> Iterator[str]:
    """Yield words by which a program that no table knows says itself that it runs, writes or reads something else."""
    words, shown = command.words, f"`{command.name}` is unknown"
    for at, word in enumerate(words):
        text = word.resolved or ""
        name, _, value = text.partition("=")
        value = value or (words[at + 1].resolved or "" if at + 1 < len(words) else "")
        if at == 0 or at in spelled:
            continue
        if text == "--" and value[:1] not in ("", "-") and ("/" in value or program_table(value) is not None):
            if not reach.allows(ShellCommand(value, words[at + 1 :])):
                yield f"{shown}, and may run `{value}`, which no rule allows"
            return
        elif _RUNS.match(name) or _SETS_A_PATH.match(text):
            yield f"{shown}, and `{word.raw}` may name a program for it"
        elif _WRITES.match(name):
            yield from _edited(value, command.name or "", reach)
    if any(one.operator.endswith("<") and accesses(one) for one in command.redirects):
        yield f"{shown}, and what it reads may be code"


def _code(words: Sequence[Word], spelled: Spelled) -> Iterator[str]:
    """Yield words that look like code; those that a task gets (`npm test "a (b)"`) are texts for a program of the project."""
    for at, word in enumerate(words):
        if at and at not in spelled and _LOOKS_LIKE_CODE.search(word.resolved or ""):
            yield f"`{word.raw}` looks like code, and the program is unknown"


def _is_command_value(words: Sequence[Word], at: int) -> bool:
    """Return whether a word is an option's value with blanks or operators: `--exec='touch x'`, `-c 'touch x'`."""
    text = words[at].resolved or ""
    before = (words[at - 1].resolved or "") if at else ""
    value = text.partition("=")[2]
    if text.startswith("-"):
        return _LOOKS_LIKE_A_COMMAND.search(value) is not None
    follows = before.startswith("-") and "=" not in before and before not in ("-", "--")
    return follows and _LOOKS_LIKE_A_COMMAND.search(text) is not None
