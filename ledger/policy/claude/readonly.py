"""Commands that Claude Code runs without asking because they only look; the rest of a program's arguments asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ledger.policy.shell.model import Word

Check = Callable[[Sequence[str]], bool]
"""Whether the words behind the program only look."""

ANY_ARGUMENTS: Final = frozenset({
    "[", "[[", "arch", "base64", "basename", "cal", "cat", "cd", "cmp", "column", "comm", "cut", "df", "diff",
    "dirname", "du", "echo", "egrep", "expand", "expr", "false", "fd", "fgrep", "file", "fmt", "fold", "free",
    "grep", "groups", "head", "help", "hexdump", "history", "id", "ifconfig", "jq", "locale", "ls", "lsof", "man",
    "md5sum", "netstat", "nl", "nproc", "numfmt", "od", "paste", "pgrep", "pr", "ps", "pwd", "readlink", "realpath",
    "rev", "seq", "sha256sum", "sleep", "ss", "stat", "strings", "tac", "tail", "test", "tput", "tr", "tree",
    "true", "tsort", "type", "uname", "unexpand", "uptime", "wc", "which", "whoami",
})  # fmt: skip
_LISTED: Final = frozenset({
    "[", "[[", "base64", "egrep", "fd", "fgrep", "file", "grep", "help", "ifconfig", "lsof", "man", "md5sum", "netstat",
    "paste", "pgrep", "ps", "sha256sum", "ss", "tput", "tree",
})  # fmt: skip
_EXPANSION = re.compile(r"[$`]")
_EXPANDS_ODDLY = re.compile(r"\$[?$!#@*0-9-]")
_GIT_LOOKS: Final = frozenset({
    "status", "log", "diff", "show", "rev-parse", "ls-files", "blame", "grep", "describe", "reflog", "shortlog",
    "cat-file", "for-each-ref", "rev-list", "merge-base", "ls-remote",
})  # fmt: skip
_GIT_RUNS: Final = (
    "--output",
    "--ext-diff",
    "--no-index",
    "--open-files-in-pager",
    "-O",
    "--textconv",
    "--upload-pack",
    "--exec",
    "-S",
    "-G",
    "-L",
)
_GIT_LISTS: Final = {
    "branch": frozenset({"-a", "-r", "-v", "-vv", "--all", "--list", "--remotes", "--verbose", "--show-current"}),
    "tag": frozenset({"-l", "--list", "-n"}),
    "remote": frozenset({"-v", "--verbose"}),
}
_FIND_ACTS: Final = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")
_JQ_READS: Final = ("--from-file", "--rawfile", "--slurpfile", "--library-path")


def only_looks(words: Sequence[Word]) -> bool:
    """Whether a command is one of those. Words that are known only when the line runs are looked at as written."""
    if any(_EXPANDS_ODDLY.search(word.raw) for word in words):
        return False
    name, *rest = [word.resolved if word.resolved is not None else word.raw for word in words] or [""]
    check = _CHECKS.get(name)
    if (check is not None or name in _LISTED) and any(map(_expands, words)):
        return False
    return name in ANY_ARGUMENTS if check is None else check(rest)


def _expands(word: Word) -> bool:
    return _EXPANSION.search(word.raw.replace("$HOME", "")) is not None


def find_acts(words: Sequence[str]) -> bool:
    return any(word.startswith(_FIND_ACTS) for word in words)


def jq_reads_code(words: Sequence[str]) -> bool:
    return any(re.match(r"-[a-zA-Z]*[fL]", word) or word.startswith(_JQ_READS) for word in words[1:])


def _git(words: Sequence[str]) -> bool:
    if not words:
        return False
    sub, rest = words[0], words[1:]
    if any(word.startswith(_GIT_RUNS) for word in rest):
        return False
    if sub in _GIT_LISTS:
        return all(word in _GIT_LISTS[sub] for word in rest)
    if sub == "stash":
        return rest[:1] in (["list"], ["show"])
    if sub == "worktree":
        return list(rest) == ["list"]
    if sub == "config":
        return rest[:1] in (["--get"], ["--get-all"], ["--get-regexp"]) and len(rest) >= 2
    if sub == "reflog":
        return rest[:1] not in (["expire"], ["delete"])
    return sub in _GIT_LOOKS


def _only(*known: Sequence[str]) -> Check:
    return lambda words: list(words) in [list(one) for one in known]


def _without(*options: str) -> Check:
    """No word begins with one of these."""
    return lambda words: not any(word.startswith(options) for word in words)


def _sed(words: Sequence[str]) -> bool:
    """It prints lines by number, or changes what it is fed; a file with any other script is asked."""
    options = [word for word in words if word.startswith("-")]
    operands = [word for word in words if not word.startswith("-")]
    if options == ["-n"]:
        return bool(operands) and all(char in "0123456789,;p$ " for char in operands[0]) and operands[0].endswith("p")
    return (
        not options
        and len(operands) == 1
        and operands[0].startswith("s/")
        and operands[0].count("/") == 3
        and (operands[0].rpartition("/")[2] in ("", "g", "i", "gi", "I"))
    )


def _xargs(words: Sequence[str]) -> bool:
    return not words or words[0] in ("echo", "grep", "wc", "head", "tail", "printf")


_CHECKS: Final[dict[str, Check]] = {
    "git": _git,
    "find": lambda words: not find_acts(words),
    "sed": _sed,
    "sort": _without("-o", "-k", "-t", "-T", "-S", "--output", "--compress-program", "--files0-from"),
    "rg": _without("--pre", "--hostname-bin", "--search-zip", "-z", "--files"),
    "date": _without("-s", "--set", "-f", "--file"),
    "hostname": _without("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u",
                         "v", "w", "x", "y", "z", "-F", "-b"),
    "printf": _without("-v"),
    "uniq": lambda words: all(word.startswith("-") for word in words),
    "xargs": _xargs,
    "node": _only(["-v"], ["--version"]),
    "python": _only(["--version"]),
    "python3": _only(["--version"]),
    "docker": lambda words: bool(words) and words[0] in ("ps", "images", "inspect", "logs"),
    "jq": _without("-f", "--from-file", "-L", "--rawfile", "--slurpfile"),
    "test": lambda words: "=" not in words,
}  # fmt: skip
