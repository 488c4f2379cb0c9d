"""Bash runs a plain line as the reader parsed it: generated lines, with programs that write down their words."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.grammar import read
from ledger.policy.shell.model import ShellCommand, Word

LINES_COUNT: Final = 150
PLAIN_SHARE_MIN: Final = 0.4
"""Of lines without damage; fewer would mean that the reader refuses what it should read."""

PROGRAMS: Final = ("pa", "pb", "pc", "pd")
# Each program writes its words down, prints something that looks like options and globs, and now and then fails. What
# runs too long is ended after a number of steps. Descriptor 8 tells when the last process in the background has ended.
PREAMBLE: Final = r"""
set -T
exec 8>&1
record() { local IFS=$'\x1f'; printf '%s\n' "$number$IFS${*//$'\n'/$'\x1e'}" >&9; }
pa() { record pa "$@"; echo "a -x *"; }
pb() { record pb "$@"; echo -n; return 1; }
pc() { record pc "$@"; echo "src/a b"; [ "$#" -lt 2 ]; }
pd() { record pd "$@"; cat > /dev/null; }
"""
RUN: Final = """
number={number}
( trap '(( ++steps > 400 )) && exit' DEBUG; eval {line} ) < /dev/null > /dev/null 2>&1
"""
PIECES: Final = (
    *(
        "$",
        "`",
        "\\",
        "'",
        '"',
        "{",
        "}",
        "(",
        ")",
        "|",
        "&",
        ";",
        "\n",
        " ",
        "<<E",
        "<<'E'",
        "\nE\n",
        "#",
        "*",
        "~",
        "!",
    ),
    *(
        "=",
        ",",
        "..",
        "$x",
        "${x}",
        "$(",
        "$?",
        "do",
        "done",
        "fi",
        "then",
        "X=",
        "-",
        "\\\n",
        "a",
        "[",
        "]",
        "\t",
        ":",
    ),
)


class Lines:
    """A generator of lines of the grammar, and of damaged ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def line(self, depth: int = 0) -> str:
        parts = [self.part(depth) for _ in range(self.random.randint(1, 3 if depth < 2 else 1))]
        text = parts[0]
        for part in parts[1:]:
            text += self.pick(" && ", " || ", "; ", "\n", " | ", "; ", "\n# it's\n") + part
        return text

    def part(self, depth: int) -> str:
        if depth > 2 or self.random.random() < 0.45:
            return self.simple(depth)
        inner, other = self.line(depth + 1), self.line(depth + 1)
        return self.pick(
            f"for x in {self.words(depth)} ; do {inner}\ndone",
            f"for y in a b\ndo\n{inner}; {other}\ndone",
            f"while pb {self.word(depth)}; do {inner}\ndone",
            f"if {inner}; then {other}; fi",
            f"if {inner}\nthen {other}\nelse {inner}\nfi",
            f"( {inner} )",
            f"{{ {inner}; }} 2>&1",
            f"! {self.simple(depth)}",
            f"{self.simple(depth)} <<'EOF'\nit's $x `pa`\nEOF",
            f"{self.simple(depth)} <<EOF\ntext\nEOF",
        )

    def simple(self, depth: int) -> str:
        if self.random.random() < 0.25:
            return f"{self.pick('x', 'y', 'z', 'X')}={self.value(depth)}"
        start = "CI=1 " if self.random.random() < 0.1 else ""
        end = self.pick("", "", "", " > /dev/null", " 2>&1", " &")
        return f"{start}{self.pick(*PROGRAMS)} {self.words(depth)}{end}"

    def words(self, depth: int) -> str:
        return " ".join(self.word(depth) for _ in range(self.random.randint(1, 3)))

    def word(self, depth: int) -> str:
        return "".join(self.piece(depth) for _ in range(self.random.choice((1, 1, 1, 2))))

    def value(self, depth: int) -> str:
        return self.pick(
            "a", "'b c'", '"$y"', "$x", "-n", "*.ts", '"$(pa q)"', "$(pc r)", "a$x", '""', self.word(depth)
        )

    def piece(self, depth: int) -> str:
        if self.random.random() < 0.1 and depth < 2:
            return self.pick(f"$({self.line(depth + 1)})", f'"$({self.line(depth + 1)}\n)"')
        return self.pick(
            *(
                "a",
                "-b",
                "src/c",
                "'q r'",
                '"s t"',
                "\\;",
                "d\\ e",
                "*.ts",
                "src/*",
                "{f,g}",
                "{1..3}",
                "h{i,j}k",
                "''",
            ),
            *(
                "$x",
                '"$x"',
                "${y}",
                '"a $y b"',
                "$z",
                "$X",
                '"${X}"',
                "$?",
                '"$#"',
                "x=1",
                "@",
                "%",
                "\"$(cat <<'E'\nl\nE\n)\"",
            ),
        )

    def damaged(self, line: str) -> str:
        at = self.random.randint(0, len(line))
        return line[:at] + self.pick(*PIECES) + line[at + self.random.randint(0, 2) :]


def ran_by_bash(lines: list[str], folder: Path) -> list[list[tuple[str, ...]]]:
    """The words of each program that each line ran."""
    (folder / "src").mkdir()
    for name in ("a.ts", "x y.ts", "src/a", "src/b c", "src/-n"):
        (folder / name).write_text("")
    quoted = ["'" + line.replace("'", "'\\''") + "'" for line in lines]
    script = PREAMBLE + "".join(RUN.format(number=number, line=line) for number, line in enumerate(quoted))
    (folder / "script").write_text(f"exec 9> {folder}/record\n{script}")
    subprocess.run(["bash", "--norc", str(folder / "script")], cwd=folder, check=False, capture_output=True)
    found: list[list[tuple[str, ...]]] = [[] for _ in lines]
    for record in (folder / "record").read_text().split("\n")[:-1]:
        number, *words = record.replace("\x1e", "\n").split("\x1f")
        found[int(number)].append(tuple(words))
    return found


def pattern_of(word: Word) -> str:
    """A regular expression for the words that one may become, each with a NUL behind it."""
    if word.resolved is not None and not word.glob:
        return re.escape(word.resolved) + "\0"
    if word.resolved is not None:
        one = re.sub(r"\\\*", "[^\0]*", re.escape(word.resolved)) + "\0"
        return f"(?:{one})+"
    begin = "(?![-])" if word.operand else re.escape(word.prefix or "")
    return f"(?:{begin}[^\0]*\0(?:[^\0]*\0)*)?" if word.several else f"{begin}[^\0]*\0"


def fits(command: ShellCommand, words: tuple[str, ...]) -> bool:
    pattern = "".join(map(pattern_of, command.words))
    return re.fullmatch(pattern, "".join(word + "\0" for word in words), re.DOTALL) is not None


def generated(seed: int, *, damage: bool) -> Iterator[str]:
    lines = Lines(seed)
    for _ in range(LINES_COUNT):
        line = lines.line()
        yield lines.damaged(line) if damage else line


@pytest.mark.parametrize("damage", [False, True], ids=["whole", "damaged"])
@pytest.mark.parametrize("seed", [1, 2])
def test_bash_runs_nothing_but_what_the_reader_said(seed: int, damage: bool, tmp_path: Path) -> None:
    plain = [line for line in generated(seed, damage=damage) if read(line).reason is None]
    ran = ran_by_bash(plain, tmp_path)
    assert len(ran) == len(plain)
    assert damage or len(plain) > LINES_COUNT * PLAIN_SHARE_MIN
    assert sum(map(len, ran)) > len(plain)
    for line, commands in zip(plain, ran, strict=True):
        said = [command for command in analyse(line).commands if command.words]
        for words in commands:
            assert any(fits(command, words) for command in said), (line, words)
