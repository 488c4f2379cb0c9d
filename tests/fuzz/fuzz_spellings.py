"""Spell one meaning in many ways and demand one verdict: `python -m tests.fuzz.fuzz_spellings --seconds 3600`.

A command is made from a program's table: a path of sub-commands, options, operands. It is spelled twice, with other names
and abbreviations of options, in another order, in clusters, with values glued or apart, in quotes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ledger.policy.check_questions import Checker
from ledger.policy.shell.forms.nodes import Arity, Effect, Option, ProgramNode, known_programs, program_table

OPTIONS_COUNT_MAX: Final = 4
WORDS: Final = ("a", "src/b", "main", "12")
VALUES: Final = ("v", "3", "x/y")
_JUDGED_BY_CLAUDE: Final = ("cp", "mv")
"""Commands that are asked about for each option as written, in every profile, as the program does."""
_STYLES: Final = ("gnu", "posix", "go")


class Meaning(msgspec.Struct, frozen=True):
    """A command without a spelling: options with their values, their possible places, and operands."""

    program: ProgramNode
    path: tuple[ProgramNode, ...]
    options: tuple[tuple[Option, str | None], ...]
    operands: tuple[str, ...]

    @property
    def node(self) -> ProgramNode:
        return self.path[-1] if self.path else self.program

    @property
    def long_names(self) -> frozenset[str]:
        """The long options that may stand behind the last sub-command."""
        above = [one for one in (self.program, *self.path) if one.globals == "anywhere" or one is self.node]
        return frozenset(name for one in above for name in one.long_names)


def meaning(pick: random.Random) -> Meaning:
    """Return a command by the table of any program."""
    while True:
        program = program_table(pick.choice(known_programs()))
        assert program is not None
        if program.style in _STYLES and not program.old_style:
            return _command(pick, program)


def _command(pick: random.Random, program: ProgramNode) -> Meaning:
    path: list[ProgramNode] = []
    node = program
    while node.commands and (node.operands is None or pick.random() < 0.5):
        named = sorted(name for name in node.commands if "*" not in name)
        if not named:
            break
        node = node.commands[pick.choice(named)]
        if node.same:
            break
        path.append(node)
    node = path[-1] if path else program
    distinct = {option.name: option for option in node.options.values() if _is_one(option)}
    chosen = pick.sample(sorted(distinct), min(len(distinct), pick.randint(0, OPTIONS_COUNT_MAX)))
    options = tuple((distinct[name], _value(pick, distinct[name])) for name in chosen)
    operands = tuple(pick.choice(WORDS) for _ in range(pick.randint(0, 2))) if node.operands is not None else ()
    return Meaning(program, tuple(path), options, operands)


def _is_one(option: Option) -> bool:
    """Return whether an option is one by itself: not a pattern for many, nor one that takes the rest of the words."""
    return option.effect is not Effect.PROGRAM and not any("*" in name for name in option.names)


def _value(pick: random.Random, option: Option) -> str | None:
    return None if option.arity is not Arity.NEXT else pick.choice(VALUES)


def spelling(pick: random.Random, one: Meaning) -> str:
    """Return one way to write a command."""
    node = one.node
    items = [_option(pick, one, option, value) for option, value in one.options]
    if node.style in ("gnu", "posix"):
        flags = {name for option, _ in one.options if option.arity is Arity.NONE for name in option.names}
        items = _clustered(pick, items, flags)
    pick.shuffle(items)
    operands = [[word] for word in one.operands]
    tail = _mixed(pick, items, operands) if node.interspersed else [*items, *operands]
    head = [_named(pick, above, below) for above, below in zip((one.program, *one.path), one.path, strict=False)]
    words = [one.program.name, *head, *(word for item in tail for word in item)]
    return " ".join([words[0], *(_quoted(pick, word) for word in words[1:])])


def _named(pick: random.Random, above: ProgramNode, node: ProgramNode) -> str:
    return pick.choice(sorted(name for name, found in above.commands.items() if found is node))


def _option(pick: random.Random, one: Meaning, option: Option, value: str | None) -> list[str]:
    name = pick.choice(option.names)
    if one.node.style == "go":
        name = pick.choice(("-", "--")) + name.lstrip("-")
    elif name.startswith("--") and one.node.style == "gnu":
        name = _abbreviated(pick, one, name)
    if value is None:
        return [name]
    ways = [[name, value]]
    if name[1] != "-" and len(name) == 2 and one.node.style != "go" and one.node.glued:
        ways.append([name + value])
    elif "=" in one.node.separators and (name.startswith("--") or one.node.style == "go"):
        ways.append([f"{name}={value}"])
    return pick.choice(ways)


def _abbreviated(pick: random.Random, one: Meaning, name: str) -> str:
    """Return a prefix of a long name that no other name has, the opposite of a flag included (`--no-text`)."""
    names = [*one.long_names, *(f"--no-{flag[2:]}" for flag in one.long_names if f"--no-{flag[2:]}" != name)]
    fitting = [
        name[:end] for end in range(4, len(name)) if [long for long in names if long.startswith(name[:end])] == [name]
    ]
    return pick.choice([*fitting, name])


def _clustered(pick: random.Random, items: list[list[str]], flags: set[str]) -> list[list[str]]:
    """Join some flags of one letter into one word."""
    letters = [item for item in items if item[0] in flags and len(item[0]) == 2 and item[0][1].isalpha()]
    if len(letters) < 2 or pick.random() < 0.5:
        return items
    others = [item for item in items if item not in letters]
    return [*others, ["-" + "".join(item[0][1] for item in letters)]]


def _mixed(pick: random.Random, items: list[list[str]], operands: list[list[str]]) -> list[list[str]]:
    """Place options anywhere between the operands, which keep their order."""
    found = list(items)
    at = 0
    for operand in operands:
        at = pick.randint(at, len(found))
        found.insert(at, operand)
        at += 1
    return found


def _quoted(pick: random.Random, word: str) -> str:
    kind = pick.random()
    if kind < 0.8 or not word:
        return word
    if kind < 0.9:
        return f"'{word}'"
    return f'{word[:1]}"{word[1:]}"' if len(word) > 1 and word.isascii() else word


def questions(pick: random.Random, one: Meaning, lines: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield, for each dialect and set of rules, the same question about every spelling."""
    program = one.program.name
    path = " ".join([program, *(node.name for node in one.path)])
    denied = [f"{path} *", *(f"{path} {option.name} *" for option, value in one.options if value is None)]
    for deny in (None, pick.choice(denied)):
        for config in _configs(program, deny):
            if config["dialect"] == "claude" and program in _JUDGED_BY_CLAUDE:
                continue
            yield [{**config, "input": {"command": line}} for line in lines]


def _configs(program: str, deny: str | None) -> Iterator[dict[str, Any]]:
    common = {"profile": "hardened", "cwd": "/repo", "sandbox_root": "/repo", "home": "/home/u"}
    bash = {f"{program} *": "allow", **({deny: "deny"} if deny else {})}
    yield {**common, "dialect": "opencode", "tool": "bash", "config": {"permission": {"bash": bash, "edit": "allow"}}}
    for dialect in ("claude", "betcode"):
        rules = {"allow": [f"Bash({program} *)", "Edit"], "deny": [f"Bash({deny})"] if deny else []}
        yield {**common, "dialect": dialect, "tool": "Bash", "config": {"permissions": rules}}
    denies = [{"tool": "bash", "command_glob": deny}] if deny else []
    lists = {"allow": [{"tool": "bash", "command": program}, {"tool": "write"}], "deny": denies}
    yield {**common, "dialect": "codelia", "tool": "bash", "config": {"permissions": lists}}


def check(seed: int, checker: Checker) -> None:
    """Judge some spellings of one command; fails by AssertionError."""
    pick = random.Random(seed)
    one = meaning(pick)
    lines = [spelling(pick, one) for _ in range(3)]
    for asked in questions(pick, one, lines):
        answers = [checker.answer({name: value for name, value in q.items() if _fits(q, name)}) for q in asked]
        assert not any("error" in answer for answer in answers), answers
        verdicts = {answer["verdict"] for answer in answers}
        assert len(verdicts) == 1, (
            seed,
            asked[0]["dialect"],
            asked[0]["config"],
            list(zip(lines, answers, strict=True)),
        )


def _fits(question: dict[str, Any], name: str) -> bool:
    return name != "sandbox_root" or question["dialect"] == "codelia"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    checker, seed, ends = Checker(), given.first, time.monotonic() + given.seconds
    while time.monotonic() < ends:
        check(seed, checker)
        seed += 1
    sys.stdout.write(
        f"{seed - given.first:,} commands, each in three spellings, had one verdict each in every dialect\n"
    )


if __name__ == "__main__":
    main()
