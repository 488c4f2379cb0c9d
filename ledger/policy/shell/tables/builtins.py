"""Builtins that change the meaning of later commands. No allow rule for them ever counts."""

from __future__ import annotations

from typing import Final

STATE_BUILTINS: Final = frozenset({
    # names: the meaning of later words
    "alias", "unalias", "enable", "hash", "bind", "complete", "compgen", "compopt", "abbr", "rehash",
    # variables: PATH, LD_PRELOAD, GIT_…, and subscripts that are evaluated
    "declare", "typeset", "local", "export", "readonly", "unset", "let", "read", "readarray", "mapfile", "getopts",
    "set", "setenv", "unsetenv", "shift", "integer", "float",
    # options and limits of the shell itself
    "shopt", "setopt", "unsetopt", "emulate", "zmodload", "autoload", "ulimit", "umask",
    # directories, history and jobs
    "pushd", "popd", "chdir", "dirs", "history", "logout", "suspend", "disown", "bg", "fg", "jobs",
})  # fmt: skip
