"""The effect of a shell line: how far what it does can be taken back. Pure.

A command has the effect of its program and sub-command by `tables/effects.toml`, or a worse one by its options and by
the files that it writes. What the normal form does not understand, what no table has, and every line that is not plain
cannot be undone. Code of the project that a known program runs (`pytest`, `make test`) is not looked into.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import EFFECTS, CallEffect
from ledger.policy.data_files import WordSet, program_spans, read_file
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.danger import is_harmless_builtin, never_allowed, unknown_word
from ledger.policy.shell.directories import Directories
from ledger.policy.shell.forms.nodes import Effect, Given, NormalForm, OperandKind
from ledger.policy.shell.forms.objections import Reach, Spelled, leaves, obstacle, only_tells
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import Access, Redirect, ShellCommand, accesses, straight
from ledger.policy.shell.names import lookups, may_be_set
from ledger.policy.shell.tables import OWN_FILES, PROGRAM_FOLDERS, effects
from ledger.policy.shell.unwrap import inmost, parts_of
from ledger.policy.spelled import UNKNOWN_FOLDER

READS: Final = EFFECTS[0]
WORST: Final = EFFECTS[-1]

DEPTH_MAX: Final = 4
"""Lines within lines (`bash -c '…'`), and programs run by programs, that are looked into."""

KNOWN_COUNT: Final = 64
"""Lines whose effect is cached: rules and the record ask about the same one."""

_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash"})
_SCRIPT: Final = frozenset({"-c", "-lc"})
_GRAVE: Final = ("deletes", "privileges", "runs-downloaded")
_CHECKS: Final = late_pattern(
    r"(?:all|assemble|bench|build|check|checks|compile|coverage|docs?|fmt|format|help|lint|package|spec|test|tests|type"
    r"|typecheck|types|unit|verify|watch)"
    r"(?:[:_-](?:all|build|check|ci|coverage|e2e|fast|fix|format|integration|js|lint|test|tests|ts|types|unit|watch))*"
)
"""Names of tasks that build or check; any other task (`deploy`) may do anything."""
_PLAIN_WORDS: Final = late_pattern(
    r"--(?:check|ci|coverage|exact|fix|ignored|include-ignored|nocapture|passWithNoTests|quiet|run|runInBand|show-output"
    r"|silent|verbose|watch(?:All)?=false|(?:test-threads|maxWorkers)=\d+)|-[ADW]|warnings|clippy::\w+"
    r"|(?:\w[\w.-]*/)*\w[\w.-]*\.(?:test|spec)\.[cm]?[jt]sx?"
)
"""Words for the unknown tool of a task that builds or checks; any other word may make it do anything."""
_SHOW_ALONE: Final = frozenset({"env", "set", "alias", "export"})  # without words they show what is set
_CHANGES_ALL: Final = frozenset({"mv", "ln"})
"""Programs that move each operand, or make another name of it, by which a later command may change it."""
_WRITES: Final = frozenset({Effect.WRITE, Effect.OUTPUT})
_WRITTEN: Final = frozenset({OperandKind.WRITE, OperandKind.OUTPUT, OperandKind.EDIT})


class ToolNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tools of agents by their effect."""

    reads: WordSet
    edits: WordSet
    writes: WordSet
    patches: WordSet


class _Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `effects.toml`: of each effect, the sub-commands of programs, and whole programs under `programs`."""

    reads: dict[str, WordSet]
    changes_here: dict[str, WordSet]
    changes_elsewhere: dict[str, WordSet]
    irreversible: dict[str, WordSet]
    tools: ToolNames


_PROGRAMS: Final = "programs"
_PROGRAM: Final = "PROGRAM"
_TABLES: Final = read_file(_Tables, "policy/shell/tables/effects.toml")
TOOLS: Final = _TABLES.tools


@cache
def listed_titles() -> dict[str, dict[str, CallEffect]]:
    """Return the effects by program and sub-command (`git/push`), each by option; the one without is under ``."""
    found: dict[str, dict[str, CallEffect]] = {}
    for effect in EFFECTS:
        for program, entries in getattr(_TABLES, effect).items():
            for entry in entries:
                title, _, option = entry.partition("+")
                path = title if program == _PROGRAMS else f"{program}/{title}".rstrip("/")
                found.setdefault(path, {})[option] = effect
    return found


def highest(found: Sequence[CallEffect]) -> CallEffect:
    """Return the worst of several effects; `reads` for none."""
    return max(found, key=EFFECTS.index, default=READS)


class CallPlace(msgspec.Struct, frozen=True):
    """The folder of the project, and those in which a command may run; none where it may run anywhere."""

    folder: str
    runs_in: frozenset[str]

    def of_change(self, path: str, beyond: CallEffect = WORST) -> CallEffect:
        """Return the effect of changing a file: git brings back what is in the folder, but nothing of its own `.git`."""
        if path in OWN_FILES:
            return READS
        if not path or path.startswith("~") or not self.runs_in:
            return WORST
        found: list[CallEffect] = []
        for place in self.runs_in:
            parts = posixpath.relpath(posixpath.join(place, path), self.folder).split("/")
            gone = beyond if ".." in parts else "changes_here"
            found.append(WORST if ".git" in map(str.casefold, parts) else gone)
        return highest(found)


@lru_cache(maxsize=KNOWN_COUNT)
def place_of(folder: str | None, within: str | None = None) -> CallPlace:
    """Return the place of a call in a folder, which its own input may change (`within`)."""
    root = posixpath.normpath(folder or UNKNOWN_FOLDER)
    there = _entered(root, root if within is None else within, root)
    return CallPlace(root, frozenset() if there is None else frozenset({there}))


def _entered(directory: str, target: str, root: str) -> str | None:
    full = posixpath.normpath(posixpath.join(directory, target))
    return full if full == root or full.startswith(root.rstrip("/") + "/") else None


@lru_cache(maxsize=KNOWN_COUNT)
def line_effect(line: str, place: CallPlace, depth: int = DEPTH_MAX) -> CallEffect:
    """Return the effect of a command line: the worst of its commands."""
    analysis = analyse(line)
    if analysis.cut or not (analysis.plain or analysis.redirects_only) or not depth:
        return WORST
    commands = analysis.top
    places = [place.runs_in] * len(commands)
    if any(command.name == "cd" for command in commands):
        flow = analysis.flow or straight(analysis.operators)
        start = next(iter(place.runs_in), "")
        walked = Directories(commands, flow, start, lambda at, target: _entered(at, target, place.folder))
        is_known = len(place.runs_in) == 1 and not walked.leaves
        places = walked.places if is_known else [frozenset()] * len(commands)
    # Without repeats: a line may have many thousand equal commands.
    distinct = dict.fromkeys(zip(commands, places, strict=True))
    return highest([_of_statement(command, CallPlace(place.folder, at), depth) for command, at in distinct])


def _of_statement(command: ShellCommand, place: CallPlace, depth: int) -> CallEffect:
    found = [_of_redirect(one, place) for one in command.redirects]
    found += [READS if may_be_set(one.name) else WORST for one in command.assignments]
    for part in parts_of(command) if command.words else ():
        inner = inmost(part)
        # A `cd` behind a wrapper is not followed.
        found.append(WORST if inner.name == "cd" and inner is not part else _of_command(inner, place, depth))
    return highest(found)


def _of_redirect(redirect: Redirect, place: CallPlace) -> CallEffect:
    path = redirect.target.resolved
    if path is None or path.startswith(("/dev/tcp", "/dev/udp")):
        return WORST if accesses(redirect) else READS
    if Access.EDIT not in accesses(redirect):
        return READS
    is_added = redirect.operator.endswith(">>")
    return WORST if redirect.target.glob else place.of_change(path, "changes_elsewhere" if is_added else WORST)


def _of_command(command: ShellCommand, place: CallPlace, depth: int) -> CallEffect:
    name = command.name
    if name in ("source", ".") and is_harmless_builtin(command):
        return place.of_change(command.words[1].resolved or "")  # it runs a file of the project
    if name == "cd" or is_harmless_builtin(command) or (name in _SHOW_ALONE and len(command.words) == 1):
        return READS
    script = _script_of(command)
    if script is not None:
        return line_effect(script, place, depth - 1)
    folder, _, program = (name or "").rpartition("/")
    is_named = program in program_spans() or program in listed_titles()
    if not depth or not is_named or (folder and folder not in PROGRAM_FOLDERS) or never_allowed(command):
        return WORST
    form = form_of(command)
    if form is None:
        return listed_titles().get(program, {}).get("", WORST) if not unknown_word(command) else WORST
    words = [word.resolved or word.raw for word in command.words[1:]]
    if unknown_word(command, form) or any(effects()[one].applies(lookups(program), words) for one in _GRAVE):
        return WORST
    return _of_form(command, form, place, depth)


def _script_of(command: ShellCommand) -> str | None:
    words = [word.resolved for word in command.words]
    is_script = len(words) == 3 and words[0] in _SHELLS and words[1] in _SCRIPT
    return words[2] if is_script and not any(word.glob for word in command.words) else None


def _of_form(command: ShellCommand, form: NormalForm, place: CallPlace, depth: int) -> CallEffect:
    if only_tells(command, form):
        return READS
    names = {one.name for one in form.options}
    if any(f"--no-{name[2:]}" in names for name in names):
        return WORST  # the later of the two counts
    by_option = listed_titles().get(_title(form), {})
    given = {one: _by_value(by_option, one) for one in form.options}
    others = {*form.means, *((_PROGRAM,) if form.inner is not None else ())}
    meant = [effect for name, effect in by_option.items() if name in others]
    found = [*meant, *(effect for matched in given.values() for effect in matched)] or [by_option.get("", WORST)]
    understood = replace(
        form,
        nodes=tuple(replace(node, spell=False) for node in form.nodes),
        options=tuple(one for one, matched in given.items() if one.effect is Effect.PLAIN or not matched),
        operands=tuple(replace(one, is_known=True) for one in form.operands),
        inner=None,
    )
    if obstacle(command, understood, Spelled((command.words[0].raw,), command.words), Reach()) is not None:
        return WORST
    if form.inner is not None:
        found.append(_of_command(inmost(form.inner), place, depth - 1))
    is_moved = any(one.effect is Effect.FOLDER for one in form.options)
    if form.program == "git" and (is_moved or place.runs_in != {place.folder}):
        return WORST  # a repository in another folder has its own configuration, which may run programs
    if form.program == "cmake" and any(word.resolved == "--" for word in command.words):
        return WORST  # more words are for the tool that builds
    if any(one.effect is Effect.FOLDER and place.of_change(one.value or "") == WORST for one in form.options):
        place = CallPlace(place.folder, frozenset())
    effect = highest([*found, *_written(form, place, highest(found))])
    return WORST if effect == "changes_here" and not place.runs_in else effect


def _title(form: NormalForm) -> str:
    """Return program and sub-command as the tables have them: `aws/ec2/describe-*`."""
    steps = [node.name if "*" in node.name else step for node, step in zip(form.nodes[1:], form.path, strict=False)]
    return "/".join((form.program, *steps))


def _by_value(by_option: Mapping[str, CallEffect], given: Given) -> list[CallEffect]:
    """Return the effects that are listed for an option with this value; where there is none, for the option."""
    found: list[CallEffect] = []
    for entry, effect in by_option.items():
        name, equals, pattern = entry.partition("=")
        if equals and name == given.name and given.value is not None and fnmatchcase(given.value.casefold(), pattern):
            found.append(effect)
    return found or [effect for entry, effect in by_option.items() if entry == given.name]


def _written(form: NormalForm, place: CallPlace, effect: CallEffect) -> Iterator[CallEffect]:
    """Yield the effects of what options and operands write, and of other tasks than those that build or check."""
    for one in form.options:
        if one.effect in _WRITES or (effect != READS and leaves(one.value or "")):
            yield place.of_change(one.value or "")
        elif one.effect is Effect.EDITS:
            yield place.of_change(".")
    for operand in form.operands:
        is_worked_in = operand.kind is OperandKind.FOLDER and effect != READS
        is_changed = is_worked_in or operand.kind in _WRITTEN or form.program in _CHANGES_ALL
        if is_changed or (form.edits and operand.kind is OperandKind.READ):
            yield place.of_change(operand.text) if operand.is_known else WORST
        elif (operand.kind is OperandKind.TASK and not _CHECKS.fullmatch(operand.text)) or (
            operand.kind in (OperandKind.PROGRAM, OperandKind.WORDS)
            and form.inner is None
            and not _PLAIN_WORDS.fullmatch(operand.text)
        ):
            yield WORST
