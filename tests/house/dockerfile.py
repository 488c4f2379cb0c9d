"""A parser of Dockerfiles, for the tests of ours: what the builder's reference says of the forms that one may use.

Directives of the first lines, comments, continued lines, here-documents, flags, the JSON form, quotes, stages and the
scope of `ARG`. What it does not know is refused, so that no test passes over it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

KNOWN: Final = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
FLAG: Final = re.compile(r"--([a-z-]+)(?:=(\S*))?\s+")
OF_THE_BASE: Final = "/usr/local/bin:/usr/bin:/bin"
"""The PATH that base images bring; no other variable of theirs is known."""

VARIABLE: Final = re.compile(r"\$(?:\{(?P<braced>\w+)(?::(?P<sign>[-+])(?P<word>[^}]*))?\}|(?P<plain>\w+))")
HEREDOC: Final = re.compile(r"<<-?[\"']?\w+[\"']?")


class DockerfileError(Exception):
    """A line that no builder would take, or that this parser does not know."""


class Instruction(NamedTuple):
    """An instruction with its flags; `text` is what follows them, `line` that of the file on which it begins."""

    word: str
    flags: dict[str, str]
    text: str
    line: int

    @property
    def is_exec(self) -> bool:
        """Return whether the program is started without a shell."""
        return self.text.startswith("[")

    @property
    def words(self) -> list[str]:
        """Return the words of the JSON form, or of the other one."""
        if self.is_exec:
            found = json.loads(self.text)
            if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
                raise DockerfileError(f"line {self.line}: not a list of texts")
            return found
        return shlex.split(self.text)

    @property
    def pairs(self) -> dict[str, str]:
        """Return the names and values of ENV, LABEL or ARG; an ARG without a default has an empty one."""
        found: dict[str, str] = {}
        for one in shlex.split(self.text):
            name, sign, value = one.partition("=")
            if (not sign and self.word != "ARG") or name in found:
                raise DockerfileError(f"line {self.line}: `{one}` is not one new NAME=VALUE")
            found[name] = value
        return found


class BuildStage(NamedTuple):
    """A stage: the image or stage that it begins with, its name, and what follows."""

    base: str
    name: str | None
    instructions: list[Instruction]

    def all(self, word: str) -> list[Instruction]:
        return [one for one in self.instructions if one.word == word]

    def last(self, word: str) -> Instruction:
        return self.all(word)[-1]

    def values(self, word: str) -> dict[str, str]:
        """Return all names of ENV or LABEL with their values, in which variables of this stage stand replaced."""
        known: dict[str, str] = {"PATH": OF_THE_BASE}
        found: dict[str, str] = {}
        for one in self.instructions:
            if one.word in {word, "ARG", "ENV"}:
                pairs = {name: replaced(value, known) for name, value in one.pairs.items()}
                known |= pairs if one.word in {"ARG", "ENV"} else {}
                found |= pairs if one.word == word else {}
        return found


class Dockerfile(NamedTuple):
    """The arguments before the first stage, and the stages in order."""

    arguments: list[Instruction]
    stages: list[BuildStage]

    @property
    def made(self) -> BuildStage:
        """Return the stage that becomes the image."""
        return self.stages[-1]

    @property
    def fetched(self) -> list[str]:
        """Return the images that the build takes from elsewhere."""
        names = {stage.name for stage in self.stages}
        of_copies = [one.flags["from"] for stage in self.stages for one in stage.all("COPY") if "from" in one.flags]
        return [one for one in [*(stage.base for stage in self.stages), *of_copies] if one not in names]


def replaced(text: str, known: dict[str, str]) -> str:
    """Return a text with its variables replaced. Raises DockerfileError for one that nobody has named."""

    def value(found: re.Match[str]) -> str:
        name = found["braced"] or found["plain"]
        if found["sign"] == "+":
            return found["word"] if name in known else ""
        if name not in known and found["sign"] is None:
            raise DockerfileError(f"`${name}` has no value in this stage")
        return known.get(name) or found["word"] or ""

    return VARIABLE.sub(value, text)


def parse(text: str) -> Dockerfile:
    """Return the content of a Dockerfile. Raises DockerfileError."""
    arguments: list[Instruction] = []
    stages: list[BuildStage] = []
    for one in _instructions(text):
        if one.word == "FROM":
            stages.append(_stage(one, stages))
        elif stages:
            stages[-1].instructions.append(one)
        elif one.word == "ARG":
            arguments.append(one)
        else:
            raise DockerfileError(f"line {one.line}: {one.word} stands before FROM")
    if not stages:
        raise DockerfileError("there is no FROM")
    return Dockerfile(arguments, stages)


def _stage(one: Instruction, before: list[BuildStage]) -> BuildStage:
    words = one.words
    if len(words) == 3 and words[1].upper() == "AS":
        if any(stage.name == words[2] for stage in before):
            raise DockerfileError(f"line {one.line}: there are two stages `{words[2]}`")
        return BuildStage(words[0], words[2], [])
    if len(words) != 1:
        raise DockerfileError(f"line {one.line}: FROM takes an image, and a name after AS")
    return BuildStage(words[0], None, [])


def _instructions(text: str) -> Iterator[Instruction]:
    parts: list[str] = []
    begun = 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            # Comments may stand between continued lines too; a directive would change what this parser reads.
            if re.match(r"#\s*(escape|syntax|check)\s*=", stripped):
                raise DockerfileError(f"line {number}: directives are not known here")
            continue
        if not stripped:
            continue
        begun = begun or number
        is_continued = line.rstrip().endswith("\\")
        parts.append(line.rstrip().removesuffix("\\") if is_continued else line)
        if not is_continued:
            yield _instruction("".join(parts).strip(), begun)
            parts, begun = [], 0
    if parts:
        raise DockerfileError(f"line {begun}: the last line is continued")


def _instruction(text: str, line: int) -> Instruction:
    word, _, rest = text.partition(" ")
    if word.upper() not in KNOWN:
        raise DockerfileError(f"line {line}: `{word}` is no instruction")
    if HEREDOC.search(rest):
        raise DockerfileError(f"line {line}: here-documents are not known here")
    rest, flags = rest.lstrip(), {}
    while (found := FLAG.match(rest)) is not None:
        flags[found[1]] = found[2] or ""
        rest = rest[found.end() :]
    return Instruction(word.upper(), flags, rest.strip(), line)
