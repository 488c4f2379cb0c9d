"""Inner commands of wrappers: `timeout 5 ls` runs `ls`, `bash -c 'rm x'` runs `rm x`. Pure, bounded in depth and steps.

`peel` is strict and serves allow rules: every option must be understood. `unwrap` is broad and serves deny and ask
rules: it finds too many commands rather than too few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.outputs import common
from ledger.policy.shell.model import Assignment, ShellCommand, Word, Wrapper
from ledger.policy.shell.names import HARMLESS, lookups
from ledger.policy.shell.parse import Budget, Found, parse
from ledger.policy.shell.tables import OPAQUE, RUNNERS, SHELLS, TRANSPARENT, Opaque, Transparent
from ledger.policy.shell.words import decode, join_lines, loosen

Words = tuple[Word, ...]

_XARGS_FLAGS = late_pattern(r"-[0rtx]+|--null|--no-run-if-empty|--verbose|--exit")
_XARGS_VALUED = late_pattern(r"-[0rtx]*[nPLs][0-9]+|--max-(?:args|procs|lines|chars)=[0-9]+|-d(?:\\n|,|:|;)")
_XARGS_NEXT = late_pattern(r"-[0rtx]*[nPLs]")
_XARGS_REPLACE = late_pattern(r"-[0rtx]*I(?P<mark>[A-Za-z{}%@_]+)?")
_NUMBER = late_pattern(r"[0-9]+")
_MARK = late_pattern(r"[A-Za-z{}%@_]+")
_ASSIGNED = late_pattern(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=.*", re.DOTALL)
_EXECS: Final = frozenset({"-exec", "-execdir"})
_INSIDE = late_pattern(r"\.|(?!\.\.(?:/|\Z))(?!.*/\.\.(?:/|\Z))[A-Za-z0-9_.@/][A-Za-z0-9_.@/-]*")
_FOLLOWS: Final = frozenset({"-L", "-H", "-follow", "-files0-from"})


def strict_inner(command: ShellCommand) -> Words | None:
    """Return the words of the command that `xargs` or `env` runs; None for another program or an unknown option."""
    if command.name == "xargs":
        return _xargs(command.words, command.fed)
    return _env(command.words) if command.name == "env" else None


def _xargs(words: Sequence[Word], fed: Word | None) -> Words | None:
    """Return the words of the command that `xargs` runs.

    Words from standard input have an unknown value. They are below the folder if `fed` is.
    """
    at, mark = 1, None
    inside, prefix = (False, "") if fed is None else (fed.inside, fed.prefix or "")
    while at < len(words):
        text = words[at].resolved
        if text is None or words[at].glob:
            return None
        if not text.startswith("-") or text == "-":
            break
        following = words[at + 1].resolved if at + 1 < len(words) else None
        replace = _XARGS_REPLACE.fullmatch(text)
        if replace is not None:
            mark = replace["mark"] or following or ""
            at += 1 if replace["mark"] else 2
            if not _MARK.fullmatch(mark):
                return None
        elif _XARGS_FLAGS.fullmatch(text) or _XARGS_VALUED.fullmatch(text):
            at += 1
        elif _XARGS_NEXT.fullmatch(text) and _NUMBER.fullmatch(following or ""):
            at += 2
        else:
            return None
    inner = tuple(words[at:])
    if not inner or inner[0].resolved is None:
        return None
    if mark is None:
        return (*inner, Word('"$@"', None, prefix=prefix, several=True, inside=inside))
    return None if mark in inner[0].raw else _replaced(inner, mark, inside=inside, prefix=prefix)


def _replaced(inner: Words, mark: str, *, inside: bool, prefix: str = "") -> Words:
    """Return the words, with each word that contains the mark replaced by one of unknown value."""
    found = list[Word]()
    for word in inner:
        if mark not in word.raw and mark not in (word.resolved or ""):
            found.append(word)
            continue
        before = (word.resolved or "").partition(mark)[0]
        whole = word.resolved == mark
        found.append(Word(word.raw, None, prefix=prefix if whole else before, inside=inside and whole))
    return tuple(found)


def _env(words: Sequence[Word]) -> Words | None:
    """Return the inner words of `env CI=1 npm test`; None with an option or a variable outside the table."""
    at = 1
    while at < len(words):
        found = _ASSIGNED.fullmatch(words[at].resolved or "")
        if found is None:
            break
        if found["name"] not in HARMLESS or words[at].tilde:
            return None
        at += 1
    inner = tuple(words[at:])
    return inner if at > 1 and inner and not (inner[0].resolved or "-").startswith("-") else None


def find_parts(command: ShellCommand) -> tuple[Words, ...] | None:
    """Return the words of `find` without its `-exec` actions, and those of each inner command; None if it runs none.

    A file's name replaces `{}`; it begins like the folder that `find` was given.
    """
    words = command.words
    texts = [word.resolved for word in words]
    if command.name != "find" or not _EXECS.intersection(texts):
        return None
    rest, runs, at = [words[0]], list[Words](), 1
    starts = _starts(words)
    while at < len(words):
        if texts[at] not in _EXECS:
            rest.append(words[at])
            at += 1
            continue
        end = at + 1
        while end < len(words) and texts[end] != ";" and not (texts[end] == "+" and texts[end - 1] == "{}"):
            end += 1
        if end == len(words) or end == at + 1 or "{}" in words[at + 1].raw:
            return None
        known = starts is not None and texts[at] == "-exec" and not _FOLLOWS.intersection(texts)
        prefix = "./" if texts[at] == "-execdir" else (starts if known and starts is not None else "")
        runs.append(_replaced(words[at + 1 : end], "{}", inside=known, prefix=prefix))
        at = end + 1
    return (tuple(rest), *runs)


def _starts(words: Sequence[Word]) -> str | None:
    """Return the common beginning of all names that `find` prints; None if a start folder may lie elsewhere."""
    starts = list[str]()
    for word in words[1:]:
        text = word.resolved
        if text is None or word.tilde:
            return None
        if text.startswith(("-", "(", "!")):
            break
        if not _INSIDE.fullmatch(text):
            return None
        starts.append(f"{text.rstrip('/')}/" if text.startswith("/") else text)
    begins, is_one = common(starts or ["."], inside=True)
    return begins if is_one else None


def after_options(
    words: Sequence[Word],
    at: int,
    read: Callable[[Word], str | None],
    width: Callable[[str, Word | None], int | None],
) -> int | None:
    """Return the index of the first word behind the options from an index on; `--` ends them.

    `read` gives a word's text. `width` gives the number of words of an option, from its text and the word after it.
    None if a text is unknown, or an option is not understood.
    """
    while at < len(words):
        text = read(words[at])
        if text is None:
            return None
        if text == "--":
            return at + 1
        if not text.startswith("-") or text == "-":
            return at
        step = width(text, words[at + 1] if at + 1 < len(words) else None)
        if step is None:
            return None
        at += step
    return at


UNWRAP_DEPTH_MAX: Final = 16

_ASSIGNMENT = late_pattern(r"[A-Za-z_]\w*=", re.ASCII)
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_RUNS: Final = frozenset({"-x", "-X", "--exec", "--exec-batch"})
_READS_SUBSCRIPTS: Final = frozenset({
    "let", "test", "[", "unset", "printf", "read", "declare", "typeset", "local", "export", "readonly", "mapfile", "wait",
})  # fmt: skip
_GRAMMAR: Final = frozenset({"{", "!", "if", "then", "elif", "else", "while", "until", "do", "coproc", "function"})
_BRACES = late_pattern(r"\{([^{}]*)\}")
_ONLY_LOOKS = late_pattern(r"-[pvV]*[vV]")  # `command -v rm` runs nothing


def peel(command: ShellCommand) -> ShellCommand | None:
    """Return the command behind one transparent wrapper; None without one or if its options are not understood."""
    spec = TRANSPARENT.get(command.name or "")
    if spec is None or command.assignments:
        return None
    words = command.words
    at = after_options(words, 1, lambda word: word.resolved, partial(_width, spec))
    if at is not None and spec.operand is not None:
        operand = words[at].resolved if at < len(words) else None
        at = at + 1 if operand is not None and spec.operand.fullmatch(operand) else None
    return None if at is None or at >= len(words) else _inner(command, words[at:], Wrapper.TRANSPARENT)


def _width(spec: Transparent, word: str, following: Word | None) -> int | None:
    if word in spec.flags or spec.value is None:
        return 1 if word in spec.flags else None
    for option in spec.valued:
        if word == option and option != "-":
            value = following.resolved if following is not None else None
            return 2 if value is not None and spec.value.fullmatch(value) else None
        glued = option + "=" if option.startswith("--") else option
        if word.startswith(glued) and spec.value.fullmatch(word, len(glued)):
            return 1
    return None


def unwrap(found: Sequence[Found], budget: Budget) -> list[ShellCommand]:
    """Return all commands of `found`, each followed by those that it runs, until `budget` is spent."""
    commands: list[ShellCommand] = []
    for one in found:
        _expand(one, 0, budget, commands)
    return commands


def _expand(found: Found, depth: int, budget: Budget, commands: list[ShellCommand]) -> None:
    commands.append(found.command)
    for inner in _inside(found, budget):
        if depth >= UNWRAP_DEPTH_MAX:
            budget.spent = budget.spent or f"commands are wrapped more than {UNWRAP_DEPTH_MAX} deep"
            return
        if not budget.take_command():
            return
        _expand(inner, depth + 1, budget, commands)


def _inside(found: Found, budget: Budget) -> Iterator[Found]:
    command = found.command
    if not command.words:
        return
    program = loosen(command.words[0])
    if command.words[0].resolved is None:
        yield from _dynamic(command, budget)
    elif program in _GRAMMAR:
        if len(command.words) > 1:
            yield Found(_inner(command, command.words[1:], Wrapper.OPAQUE))
    else:
        yield from _known(found, lookups(program), budget)
        if program in _READS_SUBSCRIPTS:
            for word in command.words[1:]:
                if word.quoted and ("$(" in loosen(word) or "`" in loosen(word)):
                    yield from _script(command, loosen(word), budget)


def _known(found: Found, names: Sequence[str], budget: Budget) -> Iterator[Found]:
    command = found.command
    for name in names:
        special = _SPECIAL.get(name)
        if special is not None:
            yield from special(command, budget)
            return
        if name in TRANSPARENT:
            peeled = peel(command)
            yield from [Found(peeled)] if peeled else _opaque(command, TRANSPARENT[name].wide, budget)
            return
        if name in SHELLS:
            yield from _shell(found, budget)
            return
        if name in OPAQUE:
            yield from _opaque(command, OPAQUE[name], budget)
            return
    yield from _runner(command, names[-1], budget)


def _inner(
    outer: ShellCommand, words: tuple[Word, ...], wrapper: Wrapper, assignments: tuple[Assignment, ...] = ()
) -> ShellCommand:
    text = " ".join(word.raw for word in words)
    return ShellCommand(text, words, assignments, (), text, outer.text, wrapper)


def _script(outer: ShellCommand, source: str, budget: Budget) -> list[Found]:
    found = parse(join_lines(source), budget, outer.text)
    return [
        Found(replace(one.command, wrapper=Wrapper.SCRIPT), one.stdin) if one.command.inside == outer.text else one
        for one in found
    ]


def _dynamic(command: ShellCommand, budget: Budget) -> Iterator[Found]:
    """Yield the commands behind an unknown name: `$SHELL -c 'rm x'`, `$SUDO rm x`, `{rm,x}`.

    The name is treated as a wrapper.
    """
    braces = _BRACES.fullmatch(command.words[0].raw)
    if braces is not None:
        words = tuple(decode(raw)[0] for raw in braces[1].split(",") if raw)
        yield Found(_inner(command, words + command.words[1:], Wrapper.OPAQUE))
        return
    script = _shell_script(command.words)
    if script is not None:
        yield from _script(command, script, budget)
    elif len(command.words) > 1:
        yield from _opaque(command, Opaque(), budget)


def _command(command: ShellCommand, budget: Budget) -> Iterator[Found]:
    looks = len(command.words) > 1 and _ONLY_LOOKS.fullmatch(loosen(command.words[1]))
    return iter(()) if looks else _opaque(command, Opaque(), budget)


def _opaque(command: ShellCommand, spec: Opaque, budget: Budget, start: int = 1) -> Iterator[Found]:
    words = command.words
    for script in _scripts(spec, words[start:]):
        yield from _script(command, script, budget)
    if not spec.command:
        return
    at = _skip_options(spec, words, start) + spec.operands
    if spec.operands and at < len(words) and loosen(words[at]).startswith("-"):
        at = _skip_options(spec, words, at)
    assignments = []
    while at < len(words) and _ASSIGNMENT.match(words[at].raw):
        name, _, value = words[at].raw.partition("=")
        assignments.append(Assignment(name, decode(value)[0]))
        at += 1
    rest = words[at:]
    if not rest:
        return
    if spec.joined:
        yield from _script(command, " ".join(loosen(word) for word in rest), budget)
    else:
        yield Found(_inner(command, rest, Wrapper.OPAQUE, tuple(assignments)))


def _skip_options(spec: Opaque, words: Sequence[Word], at: int) -> int:
    behind = after_options(words, at, loosen, lambda word, _following: _wide_width(spec, word))
    return len(words) if behind is None else behind


def _wide_width(spec: Opaque, word: str) -> int:
    if word.startswith("--"):
        name, glued, _ = word[2:].partition("=")
        return 2 if not glued and name in spec.valued_long else 1
    return 2 if _takes_next(spec, word) else 1


def _takes_next(spec: Opaque, cluster: str) -> bool:
    for index, letter in enumerate(cluster[1:], 2):
        if letter in spec.valued or letter in spec.script:
            return index == len(cluster)
    return False


def _scripts(spec: Opaque, words: Sequence[Word]) -> Iterator[str]:
    """Yield the texts of `-c TEXT`, `-cTEXT`, `--command=TEXT` and `--command TEXT`, in any position."""
    for index, word in enumerate(words):
        text = loosen(word)
        following = loosen(words[index + 1]) if index + 1 < len(words) else None
        if text.startswith("--"):
            name, glued, value = text[2:].partition("=")
            if len(name) > 1 and any(long.startswith(name) for long in spec.script_long):
                yield from [value] if glued else [following or ""]
        elif text.startswith("-"):
            letters = [letter for letter in spec.script if letter in text]
            if letters:
                glued_text = text[text.index(letters[0]) + 1 :]
                yield glued_text or following or ""


def _shell(found: Found, budget: Budget) -> Iterator[Found]:
    script = _shell_script(found.command.words)
    if script is None and found.stdin is not None:
        script = found.stdin
    if script is not None:
        yield from _script(found.command, script, budget)


def _shell_script(words: Sequence[Word]) -> str | None:
    at, reads_text = 1, False
    while at < len(words):
        word = loosen(words[at])
        if word in ("--", "-"):
            at += 1
            break
        if word[:1] not in ("-", "+") or len(word) < 2:
            break
        if word.startswith("--") or word.lower() == "-command":
            reads_text = reads_text or word.lower() in ("--command", "-command", "--init-command")
            at += 2 if word in ("--rcfile", "--init-file") else 1
            continue
        reads_text = reads_text or "c" in word
        at += 2 if word[-1] in "oO" else 1
    return loosen(words[at]) if reads_text and at < len(words) else None


def _trap(command: ShellCommand, budget: Budget) -> Iterator[Found]:
    operands = [word for word in command.words[1:] if not loosen(word).startswith("-")]
    yield from _script(command, loosen(operands[0]), budget) if operands else []


def _find(command: ShellCommand, budget: Budget) -> Iterator[Found]:
    words, at = command.words, 1
    while at < len(words):
        if loosen(words[at]) not in _FIND_RUNS:
            at += 1
            continue
        end = at + 1
        while end < len(words) and loosen(words[end]) != ";" and not _ends_batch(words, end):
            end += 1
        if end > at + 1:
            yield Found(_inner(command, words[at + 1 : end], Wrapper.OPAQUE))
        at = end


def _ends_batch(words: Sequence[Word], at: int) -> bool:
    return loosen(words[at]) == "+" and loosen(words[at - 1]) == "{}"


def _fd(command: ShellCommand, budget: Budget) -> Iterator[Found]:
    for at, word in enumerate(command.words):
        text = loosen(word)
        if text in _FD_RUNS and at + 1 < len(command.words):
            yield Found(_inner(command, command.words[at + 1 :], Wrapper.OPAQUE))
        elif text.startswith(("--exec=", "--exec-batch=")):
            yield from _script(command, text.partition("=")[2], budget)


def _alias(command: ShellCommand, budget: Budget) -> Iterator[Found]:
    for word in command.words[1:]:
        value = loosen(word).partition("=")[2]
        if value:
            yield from _script(command, value, budget)


_SPECIAL: Final = {"find": _find, "fd": _fd, "alias": _alias, "trap": _trap, "command": _command}


def _runner(command: ShellCommand, name: str, budget: Budget) -> Iterator[Found]:
    words = [loosen(word) for word in command.words[:3]]
    for length in (1, 2, 3):
        spec = RUNNERS.get((name, *words[1:length])) if len(words) >= length else None
        if spec is not None:
            yield from _opaque(command, spec, budget, start=length)
    if name == "git":
        for word in command.words[1:]:
            _, bang, script = loosen(word).partition("=!")
            if bang:
                yield from _script(command, script, budget)


def parts_of(command: ShellCommand) -> tuple[ShellCommand, ...]:
    """Return the commands that rules must allow for this one.

    They are the command itself, or `find` without its `-exec` actions and the inner command of each.
    """
    found = find_parts(command)
    return (command,) if found is None else tuple(_inner(command, words, Wrapper.TRANSPARENT) for words in found)


def peeled(command: ShellCommand) -> ShellCommand:
    """Return the command behind all transparent wrappers, or the command itself."""
    for _ in range(UNWRAP_DEPTH_MAX):
        inner = peel(command)
        if inner is None:
            break
        command = inner
    return command


def inmost(command: ShellCommand) -> ShellCommand:
    """Return the command behind all understood wrappers, including `xargs` and `env`, or the command itself."""
    for _ in range(UNWRAP_DEPTH_MAX):
        words = strict_inner(command)
        inner = peel(command) if words is None else _inner(command, words, Wrapper.TRANSPARENT)
        if inner is None:
            break
        command = inner
    return command
