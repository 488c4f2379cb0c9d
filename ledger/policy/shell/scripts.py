"""Forms of `sed` and `awk` programs that only print their input. All other programs may write or run something.

`awk` is read token by token, and unknown tokens are refused. Also refused: running or writing (`system`, pipes,
`getline`, `print > file`), access beyond the input (`ENVIRON`, `ARGV`, `PROCINFO`), user-defined functions, and places
where implementations disagree if `/` divides or begins a regular expression.
"""

from __future__ import annotations

import re
from typing import Final

from ledger.core.late_patterns import late_pattern

_TOKEN = late_pattern(
    r"""(?P<blank>[ \t]++|\#[^\n]*+)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    |(?P<number>[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*+)(?P<call>\()?
    |(?P<operator>\+\+|--|&&|\|\||[-+*/%^=!<>]=|[-+*%^=!<>~?:,$]|[;\n{}()\[\]])""",
    re.VERBOSE,
)
_REGEX = late_pattern(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n]*+\])++/")
_CALLS: Final = frozenset({
    "length", "substr", "index", "split", "toupper", "tolower", "sprintf", "int", "gsub", "sub", "gensub", "match", "sqrt",
    "exp", "log", "sin", "cos", "atan2", "rand", "srand", "strftime", "systime", "strtonum", "asort", "asorti",
    "if", "while", "for", "print", "printf", "in", "exit",
})  # fmt: skip
_REFUSED: Final = frozenset({
    "system", "getline", "close", "fflush", "function", "func", "ENVIRON", "ARGV", "ARGC", "PROCINFO", "SYMTAB", "FUNCTAB",
    "BINMODE", "TEXTDOMAIN", "return", "switch", "case",
})  # fmt: skip
_WORDS: Final = frozenset(
    {"print", "printf", "else", "do", "in", "exit", "next", "delete", "BEGIN", "END", "break", "continue"}
)
_BEFORE_REGEX: Final = frozenset(
    ["(", ",", "{", ";", "\n", "!", "~", "&&", "||", "}", "=", "==", "!=", "?", ":", "print"]
)
_BEFORE_DIVISION: Final = frozenset({"string", "number", "name"})


def is_harmless_awk(text: str) -> bool:
    """Return whether a program is understood and only prints. Linear in its length."""
    at, before, kind = 0, "\n", "operator"
    braces = parentheses = 0
    while at < len(text):
        if text[at] == "/" and before in _BEFORE_REGEX:
            found = _REGEX.match(text, at)
            if found is None:
                return False
            at, before, kind = found.end(), "/", "string"
            continue
        if text[at] == "/" and (kind in _BEFORE_DIVISION or before == "]"):
            at, before, kind = at + (2 if text.startswith("/=", at) else 1), "/", "operator"
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            return False
        at = token.end()
        if token["blank"] is not None:
            continue
        before, kind = token.group(), token.lastgroup or ""
        if kind in ("name", "call"):
            if not _may_be_named(token["name"], is_called=token["call"] is not None):
                return False
            before, kind = ("(", "operator") if token["call"] else (token["name"], "name")
            kind = "operator" if before in _WORDS else kind
        parentheses += (before == "(") - (before == ")")
        braces += (before == "{") - (before == "}")
        if min(parentheses, braces) < 0 or (before == ">" and braces and not parentheses):
            return False
    return braces == 0 and parentheses == 0


def _may_be_named(name: str, *, is_called: bool) -> bool:
    return name not in _REFUSED and (not is_called or name in _CALLS)


# sed: [ADDRESS[,ADDRESS]][!] COMMAND, joined by `;`. `s` has no `e` and no `w` among its flags.
_SED_REGEX = r"/(?:[^/\\\n]|\\[^\n])*+/I?"
_SED_ADDRESS = rf"(?:[0-9]++(?:~[0-9]++)?|\$|{_SED_REGEX})"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:\+[0-9]++|{_SED_ADDRESS}))?+!?)?+"
_SED_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}[gpIi0-9]*+"
    for mark in ("/", r"\|", "#", ",", "@", ":", "!", "%")
)
_SED_COMMAND = rf"[ \t]*+{_SED_RANGE}[ \t]*+(?:{_SED_SUBSTITUTE}|[pdqDPhHgGxnN=]|q[0-9]++)?+[ \t]*+"
_SED_SCRIPT = late_pattern(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*+")


def is_harmless_script(language: str, text: str) -> bool:
    """Return whether a script only prints. `language` is `sed`, `awk`, or empty for an unknown one."""
    if language == "awk":
        return is_harmless_awk(text)
    return language == "sed" and _SED_SCRIPT.fullmatch(text) is not None
