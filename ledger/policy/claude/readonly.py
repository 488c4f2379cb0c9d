"""Read-only commands, which Claude Code runs without asking; every other command or option is asked about.

The lists of options are data, see `listed`. This module has the rules that a list of options cannot express.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.claude.listed import lists
from ledger.policy.claude.sed import only_shows
from ledger.policy.shell.model import Word

Check = Callable[[Sequence[str]], bool]
"""A predicate on the words after the program: the command is read-only."""

_EXPANSION = late_pattern(r"[$`]")
_EXPANDS_ODDLY = late_pattern(r"\$[?$!#@*0-9-]")
_FIND_ACTS: Final = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")
_JQ_READS: Final = ("--from-file", "--rawfile", "--slurpfile", "--library-path")
_JQ_READS_SHORT = late_pattern(r"-[a-zA-Z]*[fL]")
_JQ_ENVIRONMENT = late_pattern(r"\benv\b|\$env|\b(?:import|include|system)\b", re.IGNORECASE)
_XARGS_NUMBERS: Final = frozenset({"-n", "-L", "-P", "-s"})
_XARGS_FLAGS: Final = frozenset({"-r", "-t", "-x", "-0"})
_XARGS_RUNS: Final = frozenset({"echo", "egrep", "grep", "wc", "head", "tail", "printf"})
_RESETS = late_pattern(r"reset|init|clear|flash|smcup|rmcup|iprog|if|rf|(?:rs|is|mc|pf)\w*")
_BSD_ENVIRONMENT = late_pattern(r"[a-z]*e[a-z]*")
_SOCKETS = late_pattern(r"-|state|established|listening|src|dst|sport|dport|=|[0-9.:*/\[\]]+")
_TESTS = late_pattern(r"-(?:[bcdefghknprsuwxzGLNOSt]|eq|ne|lt|le|gt|ge|nt|ot|ef)|[^-].*|-?", re.DOTALL)
_COMPARES: Final = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")
_UNIQ_OPTION = late_pattern(r"-[A-Za-z]+|--[a-z-]+(?:=[0-9]+)?")
_DOCKER_ELSEWHERE: Final = ("-H", "-c", "--host", "--context", "--config")


def only_looks(words: Sequence[Word]) -> bool:
    """Return whether a command runs without a rule. A word that is known only when the line runs counts as written."""
    if not words or any(_EXPANDS_ODDLY.search(word.raw) for word in words):
        return False
    texts = [word.resolved if word.resolved is not None else word.raw for word in words]
    known, name = lists(), texts[0]
    patterns = any(word.glob for word in words[1:])
    check = _CHECKS.get(name)
    if check is not None and not check(texts[1:]):
        return False
    if name in known.anything or (name in known.unless_patterns and not patterns):
        return True
    if any(_EXPANSION.search(word.raw.replace("$HOME", "")) for word in words):
        return name in _EXPANDING and not patterns and not any("`" in word.raw for word in words)
    found = known.entry(texts)
    if found is None:
        return check is not None and not patterns
    entry, rest = found
    return (entry.patterns or not patterns) and entry.allows(rest)


def find_acts(words: Sequence[str]) -> bool:
    return any(word.startswith(_FIND_ACTS) for word in words)


def jq_reads_code(words: Sequence[str]) -> bool:
    return any(_JQ_READS_SHORT.match(word) or word.startswith(_JQ_READS) for word in words[1:])


def _jq(words: Sequence[str]) -> bool:
    """Return whether no option reads files, and no word refers to the environment or a module."""
    if jq_reads_code(["jq", *words]) or any(_JQ_ENVIRONMENT.search(word) for word in words):
        return False
    options = [word for word in words if word.startswith("-")]
    if (
        not words
        or words[-1] in options
        or any("=" in word or not re.fullmatch(r"-[A-Za-z]+|--[a-z-]+", word) for word in options)
    ):
        return False
    named = any(word.startswith("--arg") for word in options)
    return not (named and any("$" in word for word in words))


def _xargs(words: Sequence[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        at += 1
        if option == "--":
            break
        if option in _XARGS_FLAGS:
            continue
        if not (option == "-I" and following == "{}") and not (option in _XARGS_NUMBERS and following.isdigit()):
            return False
        at += 1
    return at >= len(words) or words[at] in _XARGS_RUNS


def _test(words: Sequence[str]) -> bool:
    joins = any(re.search(r"(?:\A|\s)-[ao](?:\s|\Z)", word) for word in words[2:] or words[:1])
    compares = [at for at, word in enumerate(words) if word in _COMPARES]
    numbers = [word for at in compares for word in (*words[max(at - 1, 0) : at], *words[at + 1 : at + 2])]
    return not joins and all(word.isdigit() for word in numbers) and not any("[" in word for word in words)


def _has_subject(words: Sequence[str]) -> bool:
    """Return whether a test of one file or text has its operand, and `-t` a number."""
    if len(words) == 1:
        return not words[0].startswith("-")
    return "-t" not in words or words[-1].isdigit()


def _bracket(words: Sequence[str]) -> bool:
    return bool(words) and words[-1] == "]" and _test(" ".join(words[:-1]).split())


def _date(words: Sequence[str]) -> bool:
    """Return whether `date` prints the time, in any form; an operand of another form sets the clock."""
    return all(
        word.startswith(("+", "-")) or before in _DATED for before, word in zip(["", *words], words, strict=False)
    )


_DATED: Final = ("-d", "-r", "--date", "--reference", "--rfc-3339", "--iso-8601")


def _ifconfig(words: Sequence[str]) -> bool:
    return len(words) <= 1 and all(word.isascii() and word[:1].isalpha() for word in words)


def _uniq(words: Sequence[str]) -> bool:
    numbered = ("-f", "-s", "-w")
    return all(
        (word.isdigit() and before in numbered) or (_UNIQ_OPTION.fullmatch(word) and "files" not in word)
        for before, word in zip(["", *words], words, strict=False)
    )


def _sockets(words: Sequence[str]) -> bool:
    operands = lists().programs["ss"].operands_of(words)
    return operands is not None and all(map(_SOCKETS.fullmatch, operands))


def _is_one_line(words: Sequence[str]) -> bool:
    return not any("\n" in word for word in words)


def _no_word(pattern: re.Pattern[str]) -> Check:
    return lambda words: not any(pattern.fullmatch(word) for word in words)


def _only(*known: Sequence[str]) -> Check:
    return lambda words: list(words) in [list(one) for one in known]


def _docker(words: Sequence[str]) -> bool:
    if words[:1] in (["ps"], ["images"]):
        return not any(word.startswith(_DOCKER_ELSEWHERE) for word in words[1:])
    return words[:1] in (["logs"], ["inspect"])


_EXPANDING: Final = frozenset({"cd", "jq"})
_CHECKS: Final[Mapping[str, Check]] = {
    "[": _bracket,
    "[[": lambda words: bool(words) and words[-1] == "]]",
    "arch": _only([], ["-h"], ["--help"]),
    "cd": lambda words: len(words) <= 1 and not any(word.startswith("-") and word != "-" for word in words),
    "claude": _only(["-h"], ["--help"]),
    "date": _date,
    "docker": _docker,
    "egrep": _is_one_line,
    "fgrep": _is_one_line,
    "find": lambda words: not find_acts(words),
    "grep": _is_one_line,
    "history": lambda words: len(words) <= 1 and all(word.isdigit() for word in words),
    "ifconfig": _ifconfig,
    "ip": _only(["addr"]),
    "jq": _jq,
    "lsof": _no_word(late_pattern(r"\+[mM]")),
    "man": _no_word(late_pattern(r"[^-]*[/~].*", re.DOTALL)),
    "node": _only(["-v"], ["--version"]),
    "printf": lambda words: words[:1] != ["-v"] and not (words and words[0].startswith("-") and words[0] != "--"),
    "ps": _no_word(_BSD_ENVIRONMENT),
    "pwd": _only([]),
    "python": _only(["--version"]),
    "python3": _only(["--version"]),
    "rg": _is_one_line,
    "sed": only_shows,
    "ss": _sockets,
    "test": lambda words: (
        "=" not in words and _test(words) and all(map(_TESTS.fullmatch, words)) and _has_subject(words)
    ),
    "tput": _no_word(_RESETS),
    "uniq": _uniq,
    "whoami": _only([]),
    "xargs": _xargs,
}
