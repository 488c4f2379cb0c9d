"""Deny and ask rules matched against other spellings of a command: by its normal form, or by its options in any order. Pure.

A command is respelled in the way that a rule is written. A near miss turns an allow into an ask: a rule's options
reordered or abbreviated, or its command behind a program that no table knows.
"""

from __future__ import annotations

import posixpath
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching import whole_glob
from ledger.policy.shell.forms.nodes import Given, NormalForm, OperandKind, OperandWord, ProgramNode, program_table
from ledger.policy.shell.forms.reduction import form_by
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.names import basename
from ledger.policy.shell.words import loosen

_POLICIES_KEPT: Final = 64
_ANY: Final = "*"
_RULES_KEPT: Final = 8_192
_FILES: Final = frozenset(
    {OperandKind.READ, OperandKind.WRITE, OperandKind.EDIT, OperandKind.OUTPUT, OperandKind.FOLDER, OperandKind.SCRIPT}
)


_SIGNALLING: Final = frozenset({"kill", "pkill", "killall"})
_SCRIPTS: Final = frozenset({"npm", "yarn", "pnpm", "bun", "npm-run-all", "run-p", "run-s", "lerna"})
"""Programs whose tasks are the scripts of one `package.json`."""


_QUALIFIED = late_pattern(r"\A[\w@/.-]+#|\A:")
"""`web#deploy`, `:app:publish`."""
_ALL_RIGHTS = late_pattern(r"0+777|(?:ugo|[ugo]*a[ugoa]*)?[+=](?=.*r)(?=.*w)(?=.*x)[rwx]+")


class RuleForm(msgspec.Struct, frozen=True):
    """A rule for commands as a normal form. `patterns` are its words as written, without wildcards that stand alone."""

    patterns: tuple[str, ...]
    form: NormalForm


@lru_cache(maxsize=_POLICIES_KEPT)
def by_meaning(rules: tuple[str, ...]) -> dict[str, tuple[RuleForm, ...]]:
    """Return the rules for programs with a table, by the program's canonical name."""
    found: dict[str, list[RuleForm]] = {}
    for text in dict.fromkeys(rules):
        rule = _rule_form(text)
        if rule is None:
            continue
        for form in _by_all_names(rule.form):
            found.setdefault(form.program, []).append(RuleForm(rule.patterns, form))
    return {program: tuple(forms) for program, forms in found.items()}


@lru_cache(maxsize=_RULES_KEPT)
def _rule_form(text: str) -> RuleForm | None:
    patterns = tuple(word for word in text.split() if word.strip("*?"))
    node = program_table(patterns[0]) if patterns else None
    if node is None or len(patterns) < 2:
        return None
    cores = [one.strip("*") for one in patterns]
    form = form_by(node, [Word(core, core) for core in cores])
    if any(one.at == len(cores) - 1 for one in form.unclear) and cores[-1].startswith("-"):
        # An option without its value, as in a deny for `curl -o`, matches any value.
        with_value = form_by(node, [Word(core, core) for core in (*cores, _ANY)])
        if not any(one.at >= len(cores) - 1 for one in with_value.unclear):
            form = with_value
    return RuleForm(patterns, form)


def spelled_again(
    command: ShellCommand, form: NormalForm, rules: dict[str, tuple[RuleForm, ...]]
) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command as each rule about it would spell them, followed by the remaining words."""
    for known in _by_all_names(form):
        for rule in rules.get(known.program, ()):
            words = _spelling(rule, command, known)
            if words is not None:
                yield words


def _by_all_names(form: NormalForm) -> Iterator[NormalForm]:
    """Yield a form as it is, and as it would be if the same thing was called by another name."""
    yield form
    head, dash, command = form.program.partition("-")
    if dash and command in _commands(head):  # `docker-compose down` is `docker compose down`
        yield replace(form, program=head, path=(command, *form.path), path_at=(0, *form.path_at))
    for at, (name, after) in enumerate(pairwise(form.path)):
        if after in _commands(name):  # `uv pip install` is `pip install`
            yield replace(form, program=name, path=form.path[at + 1 :], path_at=form.path_at[at + 1 :])
    parts = form.path[-1].split("-") if len(form.nodes) > 1 and form.path else ()
    if len(parts) > 1 and all(one in form.nodes[-2].commands for one in parts):  # `npm install-test` is `npm install`
        for part in parts:
            yield replace(form, path=(*form.path[:-1], part))
    if form.program in _SCRIPTS and form.program != "npm" and _runs_task(form):  # `yarn deploy` is `npm run deploy`
        yield replace(form, program="npm", path=("run",), path_at=form.path_at[:1], nodes=form.nodes[:1])


def _runs_task(form: NormalForm) -> bool:
    return any(one.kind is OperandKind.TASK for one in form.operands) and form.path in ((), ("run",), ("run-script",))


def _commands(program: str) -> dict[str, ProgramNode]:
    node = program_table(program)
    return {} if node is None else node.commands


def rule_about(
    command: ShellCommand, form: NormalForm, rules: dict[str, tuple[RuleForm, ...]]
) -> tuple[str, ...] | None:
    """Return the words of the first rule about a command, with any words after them; None without one."""
    named = ((rule, known) for known in _by_all_names(form) for rule in rules.get(known.program, ()))
    return next((rule.patterns for rule, known in named if _spelling(rule, command, known) is not None), None)


def _spelling(rule: RuleForm, command: ShellCommand, form: NormalForm) -> tuple[str, ...] | None:
    wanted = rule.form
    wanted_path, wanted_task = _task(wanted)
    path, task = _task(form)
    if path[: len(wanted_path)] != wanted_path:
        return None
    used = _used_options(wanted, form)
    if used is None:
        return None
    if wanted_task is not None and wanted_task != task and _operand(wanted_task, OperandKind.TASK, form) is None:
        return None
    written = {at: pattern.strip("*") for at, pattern in enumerate(rule.patterns)}
    for operand in wanted.operands:
        if task is not None and whole_glob(rule.patterns[operand.at])(task):
            continue
        found = _operand(rule.patterns[operand.at], operand.kind, form)
        if found is None:
            return None
        at, written[operand.at] = found
        used.add(at)
    raw = {word.raw for word in command.words}
    if any(one.at < len(rule.patterns) and not _has_unclear(rule.patterns[one.at], raw) for one in wanted.unclear):
        return None
    used |= {0, *form.path_at[: len(wanted_path)]}
    rest = [loosen(word) for at, word in enumerate(command.words) if at not in used]
    named = {option.name for option in wanted.options}
    # `-qt` for a rule about `-q`: the other letters of the word are also options.
    rest += [one.name for one in form.options if one.at in used and one.name not in named]
    return (*written.values(), *rest)


def _task(form: NormalForm) -> tuple[tuple[str, ...], str | None]:
    """Return the path of a command, and the task that its last name is short for: `npm test` is `npm run test`.

    If a program runs a task by its name alone (`yarn deploy`), the path is that of its sub-command for running tasks.
    """
    last = form.nodes[-1]
    if last.stands_for:
        return last.stands_for[:-1], last.stands_for[-1]
    if form.operands and form.operands[0].kind is OperandKind.TASK and "run" in last.commands:
        return ("run",), None
    return form.path, None


def _used_options(wanted: NormalForm, form: NormalForm) -> set[int] | None:
    """Return the indexes of the words that hold the wanted options; None if one is missing."""
    used: set[int] = set()
    for option in wanted.options:
        same = [one for one in form.options if _is_same(option, one, form)]
        if not same and not (option.value is None and (option.name in form.means or _is_implied(option.name, form))):
            return None
        for one in form.options:
            if one in same or one.name == option.name:
                used |= {one.at} if one.value_at is None else {one.at, one.value_at}
    return used


def _is_same(wanted: Given, given: Given, form: NormalForm) -> bool:
    """Return whether an option is the one that a rule names, with a value that the rule's matches."""
    if wanted.name == given.name and (wanted.value is None or whole_glob(wanted.value)(given.value or "")):
        return True
    number = _signal(wanted) if form.program in _SIGNALLING else None
    return number is not None and number == _signal(given)


def _signal(given: Given) -> int | None:
    """Return the signal that an option of `kill` names: 9 for `-9`, `-KILL` and `--signal=SIGKILL`."""
    text = (given.value or "") if given.name in ("--signal", "-n") else given.name.lstrip("-")
    name = f"SIG{text.upper().removeprefix('SIG')}"
    return int(text) if text.isdecimal() else signal.Signals.__members__.get(name)


def _is_implied(name: str, form: NormalForm) -> bool:
    """Return whether the given options imply another one: `--delete --force` implies `-D`."""
    return any(name in node.means and node.means[name] <= form.names for node in form.nodes)


def _operand(pattern: str, kind: OperandKind, form: NormalForm) -> tuple[int, str] | None:
    """Return the index and text of an operand that a pattern matches; None without one.

    Words of an inner program are not operands of this one.
    """
    operands = [one for one in form.operands if kind is OperandKind.WORDS or one.kind is not OperandKind.WORDS]
    texts = [(one.at, text) for one in operands for text in (one.text, one.also, _also(one)) if text is not None]
    texts += [(one.at, one.text) for one in form.unclear]
    matching = whole_glob(pattern)
    found = next(((at, text) for at, text in texts if matching(text)), None)
    if found is not None:
        return found
    wide = (one for one in operands if one.kind is OperandKind.NAME and _ANY in one.text)  # `refs/heads/*` for `main`
    return next(((one.at, pattern) for one in wide if whole_glob(one.also or one.text)(pattern)), None)


def _also(operand: OperandWord) -> str | None:
    """Return another spelling: `.env` for the file `./.env`, `db:drop` for the task `db:drop[x]`, `777` for the mode `+rwx`."""
    if operand.kind is OperandKind.TEXT:
        return "777" if _ALL_RIGHTS.fullmatch(operand.text) else None
    if operand.kind is OperandKind.TASK:
        return (
            re.split(r"[#:](?=[^#:]*\Z)", operand.text)[-1]
            if _QUALIFIED.search(operand.text)
            else operand.text.partition("[")[0]
        )
    return posixpath.normpath(operand.text) if "/" in operand.text and operand.kind in _FILES else None


def _has_unclear(pattern: str, raw: set[str]) -> bool:
    """Return whether a word of the command matches a rule's pattern that is in no table."""
    return any(map(whole_glob(pattern), raw))


_ABBREVIATION_CHARS_MIN: Final = 3  # `--f`

_PARTING: Final = str.maketrans({**dict.fromkeys("'\"\\", ""), **dict.fromkeys(";&|()`={}", " ")})
"""Quotes, which a second shell removes, and characters at which another command may begin."""

TAILS_COUNT: Final = 32
TAIL_WORDS_COUNT: Final = 64
"""Bounds of the tails of one command, so that their judgement stays linear in the line."""

Restricted = dict[str, list[tuple[str, ...]]]


def with_options(rules: Iterable[tuple[str, ...]]) -> Restricted:
    """Return the rules that are relevant for near misses, by program: those with an option among their words."""
    grouped: Restricted = {}
    for words in rules:
        kept = tuple(word for word in words if word.strip("*?"))
        if any(word.startswith("-") for word in kept[1:]):
            grouped.setdefault(basename(kept[0]), []).append(kept)
    return grouped


def near_miss(command: ShellCommand, restricted: Restricted) -> tuple[str, ...] | None:
    """Return the words of a rule that this command has in another order or spelling; None without one."""
    if not restricted or command.name is None:
        return None
    words = [word.resolved or "" for word in command.words[1:]]
    letters = {letter for word in words if word.startswith("-") and not word.startswith("--") for letter in word[1:]}
    for rule in restricted.get(basename(command.name), ()):
        if all(_has(word.rstrip("*"), words, letters) for word in rule[1:]):
            return rule
    return None


def names_of(rules: Iterable[str]) -> Callable[[str], bool]:
    """Return whether a word may be the program of a rule for commands; that of a catch-all may be any, and does not count."""
    first = {basename(words[0].removesuffix(":*")) for words in map(str.split, rules) if words}
    globs = [whole_glob(one) for one in first if one.strip("*?") and ("*" in one or "?" in one)]
    return lambda word: basename(word) in first or any(one(basename(word)) for one in globs)


def tails(command: ShellCommand, is_named: Callable[[str], bool]) -> Iterator[ShellCommand]:
    """Yield the commands that a program may run if it runs its later words, or the text in one: those of a program that `is_named`."""
    found = 0
    for at, word in enumerate(command.words[1:], 1):
        text = word.resolved or ""
        inner = [Word(one, one) for one in text.translate(_PARTING).split()[:TAIL_WORDS_COUNT]] if " " in text else ()
        for begun, words in ((at, command.words), *((start, inner) for start in range(len(inner)))):
            if is_named(words[begun].resolved or ""):
                found += 1
                tail = tuple(words[begun : begun + TAIL_WORDS_COUNT])
                yield ShellCommand(" ".join(one.resolved or one.raw for one in tail), tail)
                if found == TAILS_COUNT:
                    return


def _has(wanted: str, words: Sequence[str], letters: set[str]) -> bool:
    if wanted in words:
        return True
    if not wanted.startswith("-"):
        return False
    if not wanted.startswith("--"):
        return bool(wanted[1:]) and letters.issuperset(wanted[1:])
    if wanted[2:3] in letters:
        return True
    return any(
        wanted.startswith(name) or name == wanted
        for name in (word.partition("=")[0] for word in words if word.startswith("--"))
        if len(name) >= _ABBREVIATION_CHARS_MIN
    )
