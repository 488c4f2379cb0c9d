"""A slow reading of Codelia's specification, one sentence at a time, for the faithful profile."""

from __future__ import annotations

import posixpath
from typing import Any

OPERATORS = ["2>>", "||", "&&", "|&", ">>", "2>", "|", ";", ">", "<"]  # 6.4, the longest first
REDIRECTS = {">", ">>", "<", "2>", "2>>"}
SPACES = " \t\n\v\f\r\u00a0\ufeff\u2028"


def normalise(text: str) -> str:
    """6.1: trim, and collapse consecutive spaces into one."""
    for space in SPACES:
        text = text.replace(space, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip(" ")


def pieces(text: str) -> list[tuple[str, str]]:
    """6.4: the pieces of a command, each with the operator in front of it; quoted and escaped operators are letters."""
    found, operator, piece, quote, at = [], "", "", "", 0
    while at < len(text):
        here = text[at]
        if here == "\\" and quote != "'":
            piece += text[at : at + 2]
            at += 2
            continue
        if here in "'\"" and quote in ("", here):
            quote = "" if quote else here
        match = next((one for one in OPERATORS if text.startswith(one, at)), "") if not quote else ""
        if match:
            found.append((operator, piece))
            operator, piece = match, ""
            at += len(match)
            continue
        piece += here
        at += 1
    return [*found, (operator, piece)]


def segments(text: str) -> list[tuple[str, bool]]:
    """The commands, and whether each reads or writes a file; the right side of a redirection is no command."""
    found: list[list[Any]] = []
    early = False
    for operator, piece in pieces(text):
        if operator in REDIRECTS:
            if found:
                found[-1][1] = True
            early = early or not found
        elif piece.strip(" "):
            found.append([piece.strip(" "), early and not found])
    return [(text, redirected) for text, redirected in found]


def glob(text: str, pattern: str) -> bool:
    """6.3: `*` is any string, `?` any single character."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(glob(text[skipped:], pattern[1:]) for skipped in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and glob(text[1:], pattern[1:])


def matches(rule: dict[str, str], text: str) -> bool:
    """3.2: whatever is specified must match, the first words (6.2) and the glob (6.3)."""
    if rule["tool"] not in ("bash", "shell") or "skill_name" in rule:
        return False
    if "command" in rule:
        words = normalise(rule["command"]).split(" ")
        if text.split(" ")[: len(words)] != words:
            return False
    return "command_glob" not in rule or glob(text, rule["command_glob"])


def cd(segment: str, directory: str, root: str | None) -> str | None:
    """7.2: allowed only if there is no deviation from the sandbox."""
    words = segment.split(" ")
    if (
        root is None
        or len(words) != 2
        or words[1].startswith("-")
        or any(c in "\"'`$&|;<>(){}[]*?!~\\" for c in words[1])
    ):
        return None
    target = posixpath.normpath(posixpath.join(directory, words[1]))
    inside = posixpath.relpath(target, root)
    return None if inside.startswith("..") else target


def judge_command(command: str, allow: list[Any], deny: list[Any], directory: str, root: str | None) -> str:
    """5: deny, then allow, else confirm; 6.4: allowed only if all segments are."""
    text = normalise(command)
    parts = segments(text)
    whole = [rule for rule in deny if set(rule) == {"tool"} and rule["tool"] in ("bash", "shell")]
    full = [rule for rule in deny if "command_glob" in rule and matches(rule, text)]
    if whole or (text and full) or any(matches(rule, part) for rule in deny for part, _ in parts):
        return "deny"
    if not parts:
        return "ask"
    is_cd = [part == "cd" or part.startswith("cd ") for part, _ in parts]
    if not any(is_cd) and any("command_glob" in rule and matches(rule, text) for rule in allow):
        return "allow"
    for (part, redirected), leaves in zip(parts, is_cd, strict=True):
        if leaves:
            entered = cd(part, directory, root)
            if entered is None or redirected:
                return "ask"
            directory = entered
        elif not any(matches(rule, part) and (not redirected or set(rule) == {"tool"}) for rule in allow):
            return "ask"
    return "allow"


def judge_tool(tool: str, value: dict[str, str], allow: list[Any], deny: list[Any]) -> str:
    """3.2: a rule without conditions is for the whole tool; `skill_name` is for one skill."""

    def named(rule: dict[str, str]) -> bool:
        if rule["tool"] != tool or "command" in rule or "command_glob" in rule:
            return False
        return "skill_name" not in rule or (tool == "skill_load" and rule["skill_name"] == value.get("name"))

    return "deny" if any(map(named, deny)) else "allow" if any(map(named, allow)) else "ask"
