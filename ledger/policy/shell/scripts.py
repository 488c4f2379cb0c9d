"""Forms of `sed` and `awk` programs that only print their input. All other programs may write or run something."""

from __future__ import annotations

import re

from ledger.policy.shell.awk import is_harmless_awk

# sed: [ADDRESS[,ADDRESS]][!] COMMAND, joined by `;`. `s` has no `e` and no `w` among its flags.
_SED_REGEX = r"/(?:[^/\\\n]|\\[^\n])*+/I?"
_SED_ADDRESS = rf"(?:[0-9]++(?:~[0-9]++)?|\$|{_SED_REGEX})"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:\+[0-9]++|{_SED_ADDRESS}))?+!?)?+"
_SED_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}[gpIi0-9]*+"
    for mark in ("/", r"\|", "#", ",", "@", ":", "!", "%")
)
_SED_COMMAND = rf"[ \t]*+{_SED_RANGE}[ \t]*+(?:{_SED_SUBSTITUTE}|[pdqDPhHgGxnN=]|q[0-9]++)?+[ \t]*+"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*+")


def is_harmless_script(language: str, text: str) -> bool:
    """Return whether a script only prints. `language` is `sed`, `awk`, or empty for an unknown one."""
    if language == "awk":
        return is_harmless_awk(text)
    return language == "sed" and _SED_SCRIPT.fullmatch(text) is not None
