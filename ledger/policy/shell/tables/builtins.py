"""Built-in commands that change what later commands mean. No allow rule for one of them ever counts."""

from __future__ import annotations

from typing import Final

STATE_BUILTINS: Final = frozenset({
    # names: what a later word stands for
    "alias", "unalias", "enable", "hash", "bind", "complete", "compgen", "compopt", "abbr", "rehash",
    # variables: PATH, LD_PRELOAD, GIT_…, and subscripts that run what stands in them
    "declare", "typeset", "local", "export", "readonly", "unset", "let", "read", "readarray", "mapfile", "getopts",
    "set", "setenv", "unsetenv", "shift", "integer", "float",
    # options and limits of the shell itself
    "shopt", "setopt", "unsetopt", "emulate", "zmodload", "autoload", "ulimit", "umask",
    # where the line goes on, and what happens behind it
    "pushd", "popd", "chdir", "dirs", "history", "logout", "suspend", "disown", "bg", "fg", "jobs",
})  # fmt: skip
