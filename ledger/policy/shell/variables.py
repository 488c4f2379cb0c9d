"""Names of variables that a plain line may set, and names whose value it must not print."""

from __future__ import annotations

import re
from typing import Final

# Variables of a program's environment that affect its messages, never what it runs, reads or writes.
HARMLESS: Final = frozenset({
    "CI", "NODE_ENV", "DEBUG", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "TZ",
    "RUST_BACKTRACE", "RUST_LOG", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC",
    "LC_TIME", "LC_MONETARY", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONIOENCODING",
    "PYTHONUTF8", "LOG_LEVEL", "VERBOSE", "RAILS_ENV", "RACK_ENV", "APP_ENV", "MIX_ENV", "FLASK_DEBUG", "ENVIRONMENT",
    "CARGO_TERM_COLOR", "CARGO_INCREMENTAL", "PORT", "HUSKY", "NEXT_TELEMETRY_DISABLED", "DO_NOT_TRACK", "VITEST",
    "GOOS", "GOARCH", "CGO_ENABLED", "DEBIAN_FRONTEND", "HOMEBREW_NO_AUTO_UPDATE", "TEST_ENV", "PY_COLORS",
})  # fmt: skip

# Variables that a line may set for itself. Programs see a name that is already in the environment, so only names that
# no program reads: lower-case ones except those below, and a list of common ones.
_OWN: Final = frozenset({
    "A", "B", "C", "D", "E", "F", "I", "J", "K", "M", "N", "P", "S", "T", "V", "W", "X", "Y", "Z",
    "FILE", "FILES", "DIR", "DIRS", "NAME", "NAMES", "VERSION", "TAG", "BRANCH", "BASE", "SHA", "COMMIT", "HASH", "COUNT",
    "NUM", "TOTAL", "RESULT", "RESULTS", "OUT", "OUTPUT", "SRC", "DST", "DEST", "ROOT", "MSG", "MESSAGE", "URL",
    "DATE", "NOW", "TODAY", "START", "END", "STATUS", "EXIT_CODE", "EXITCODE", "RET", "CODE", "RC", "PR", "ISSUE", "ID",
    "PID", "LINE", "PATTERN", "QUERY", "TEST", "TESTS", "PKG", "PACKAGE", "LOG", "TITLE", "BODY", "KEY_COUNT", "SIZE",
    "BASE_SHA", "HEAD_SHA", "BASE_BRANCH", "REPO", "FIRST", "LAST", "MAX", "MIN",
})  # fmt: skip
_LOWER = re.compile(r"[a-z_][a-z0-9_]*")
# Proxies and package managers read lower-case names; the others are special in zsh, ksh or csh.
_READ_LOWER = re.compile(r".*_proxy|(?:npm|pnpm|yarn|pip|zsh|bash|ksh|fish|git|ld)_.*|_+")
_SPECIAL: Final = frozenset({
    "path", "fpath", "cdpath", "manpath", "mailpath", "module_path", "prompt", "psvar", "argv", "status", "pipestatus",
    "watch", "histchars", "signals", "aliases", "galiases", "saliases", "functions", "commands", "builtins", "options",
    "parameters", "modules", "nameddirs", "userdirs", "dirstack", "history", "historywords", "jobtexts", "jobdirs",
    "jobstates", "reswords", "patchars", "keymaps", "widgets", "terminfo", "termcap", "fignore", "home", "shell", "term",
    "user", "cwd", "echo", "mapfile", "mail", "edit", "noclobber", "noglob", "savehist", "time", "usergroups", "errnos",
})  # fmt: skip
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS|CRED|KEY|AUTH|PRIVATE|COOKIE|SESSION|DSN|CONN|DATABASE_URL|SIGN", re.IGNORECASE
)


def may_be_set(name: str) -> bool:
    """Return whether a line may set this variable for its own later words."""
    if name in HARMLESS or name in _OWN:
        return True
    return bool(_LOWER.fullmatch(name)) and name not in _SPECIAL and not _READ_LOWER.fullmatch(name)


def may_hold_a_secret(name: str) -> bool:
    return _SECRET.search(name) is not None
