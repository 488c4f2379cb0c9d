"""Programs that run the command in their arguments.

A transparent wrapper changes nothing about the inner command, so a rule for the inner command may allow both. Every
other wrapper is opaque: no rule for it ever allows anything, and deny and ask rules apply to its inner command.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Opaque(msgspec.Struct, frozen=True, omit_defaults=True):
    """The syntax of a wrapper's inner command. `valued` letters and `valued_long` names take the next word.

    `operands` words precede the command. `script` letters and `script_long` names, in any position, take a text that a
    shell evaluates. If `joined`, the command's words together are such a text. `command` is true if a command follows
    the options at all.
    """

    valued: str = ""
    valued_long: tuple[str, ...] = ()
    operands: int = 0
    script: str = ""
    script_long: tuple[str, ...] = ()
    joined: bool = False
    command: bool = True


class Transparent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a wrapper that are understood; any other option makes it opaque.

    `flags` are complete words. `valued` are options whose value is attached, follows `=`, or is the next word, and must
    match `value`. `operand` is a regular expression for the single word before the command. `wide` finds the command
    for deny rules when the options are not understood.
    """

    flags: frozenset[str] = frozenset()
    valued: tuple[str, ...] = ()
    value: str = ""
    operand: str | None = None
    wide: Opaque = Opaque()


_SECONDS = r"[0-9]+(?:\.[0-9]+)?[smhd]?"

TRANSPARENT: Final = {
    "timeout": Transparent(
        flags=frozenset({"--foreground", "--preserve-status", "--verbose", "-f", "-p", "-v"}),
        valued=("-k", "--kill-after", "-s", "--signal"),
        value=rf"{_SECONDS}|[A-Z]+[0-9]*",
        operand=_SECONDS,
        wide=Opaque(valued="ks", valued_long=("kill-after", "signal"), operands=1),
    ),
    "nice": Transparent(valued=("-n", "--adjustment", "-"), value=r"-?[0-9]+", wide=Opaque(valued="n")),
    "nohup": Transparent(),
    "time": Transparent(
        flags=frozenset({"-p"}), wide=Opaque(valued="of")
    ),  # the reserved word; GNU's program of that name has -o FILE
    "stdbuf": Transparent(
        valued=("-i", "-o", "-e", "--input", "--output", "--error"),
        value=r"L|[0-9]+(?:[KMGT]B?|[kmg])?",
        wide=Opaque(valued="ioe"),
    ),
}


_NOTHING = Opaque(command=False)
_PLAIN = Opaque()

OPAQUE: Final = {
    # The shell's own
    ".": _NOTHING,
    "source": _NOTHING,
    "builtin": _PLAIN,
    "command": _PLAIN,
    "coproc": _PLAIN,
    "eval": Opaque(joined=True),
    "exec": Opaque(valued="a"),
    "fc": _NOTHING,
    "noglob": _PLAIN,
    "nocorrect": _PLAIN,
    "trap": _NOTHING,  # its first operand is a script: see unwrap
    # Other users and machines
    "sudo": Opaque(
        valued="CDghpRrTtUu",
        valued_long=("user", "group", "host", "prompt", "chdir", "chroot", "close-from", "other-user", "role", "type"),
    ),
    "doas": Opaque(valued="Cu"),
    "run0": Opaque(valued="ugD", valued_long=("user", "group", "chdir", "property", "unit", "description")),
    "su": Opaque(script="c", script_long=("command", "session-command"), command=False),
    "runuser": Opaque(valued="ugG", valued_long=("user",), script="c", script_long=("command", "session-command")),
    "pkexec": Opaque(valued_long=("user",)),
    "chroot": Opaque(operands=1),
    "unshare": Opaque(valued="SGRw"),
    "nsenter": Opaque(valued="tSGrw"),
    "setpriv": Opaque(valued_long=("reuid", "regid", "groups", "ptracer", "landlock-access")),
    "runcon": Opaque(operands=1, valued="turl"),
    "systemd-run": Opaque(valued="HMpEutG", valued_long=("unit", "property", "uid", "gid", "machine", "host")),
    "ssh": Opaque(valued="BbcDEeFIiJLlmOopQRSWw", operands=1, joined=True),
    "firejail": _PLAIN,
    "bwrap": _PLAIN,
    "proot": Opaque(valued="rbwq"),
    "fakeroot": Opaque(valued="lsib"),
    # Another environment, priority, terminal or time
    "env": Opaque(valued="uCa", valued_long=("unset", "chdir", "argv0"), script="S", script_long=("split-string",)),
    "direnv": Opaque(operands=2),
    "dotenv": Opaque(valued="f"),
    "ssh-agent": Opaque(valued="aEtP"),
    "sg": Opaque(operands=1, script="c"),
    "choom": Opaque(valued="np"),
    "linux32": _PLAIN,
    "linux64": _PLAIN,
    "cgexec": Opaque(valued="g"),
    "systemd-inhibit": _PLAIN,
    "systemd-cat": Opaque(valued="tp"),
    "chronic": _PLAIN,
    "ifne": _PLAIN,
    "lckdo": Opaque(operands=1),
    "faketime": Opaque(operands=1, valued="f"),
    "logsave": Opaque(operands=1),
    "xterm": Opaque(valued="e"),
    "setsid": _PLAIN,
    "setarch": _PLAIN,
    "ionice": Opaque(valued="cnpPu", valued_long=("class", "classdata")),
    "chrt": Opaque(valued="TPD", operands=1),
    "taskset": Opaque(operands=1),
    "numactl": Opaque(valued="iNCmpP"),
    "prlimit": _PLAIN,
    "cpulimit": Opaque(valued="lpePc"),
    "caffeinate": Opaque(valued="tw"),
    "arch": _PLAIN,
    "flock": Opaque(valued="wE", valued_long=("timeout", "conflict-exit-code"), operands=1, script="c", script_long=("command",)),
    "script": Opaque(script="c", script_long=("command",), command=False),
    "unbuffer": _PLAIN,
    "expect": Opaque(script="c", command=False),
    "rlwrap": Opaque(valued="abCDefgHlmMoOpPqSstwz"),
    "watch": Opaque(valued="nq", valued_long=("interval", "equexit"), joined=True),
    "entr": _PLAIN,
    "watchexec": Opaque(valued="ewf", joined=True),
    "daemonize": Opaque(valued="acepluoE"),
    "start-stop-daemon": Opaque(command=False),
    "dbus-run-session": _PLAIN,
    "xvfb-run": Opaque(valued="efnpsw"),
    "at": _NOTHING,
    "batch": _NOTHING,
    "tsp": Opaque(valued="NLDgE"),
    # Repeated execution
    "xargs": Opaque(
        valued="aEIdLnPs", valued_long=("arg-file", "delimiter", "max-args", "max-lines", "max-procs", "max-chars", "process-slot-var")
    ),
    "parallel": Opaque(valued="jnNIaLS", valued_long=("jobs", "arg-file", "max-args", "colsep", "delay"), joined=True),
    "hyperfine": Opaque(valued="wmMrspLP", joined=True),
    # Tracing and debugging
    "strace": Opaque(valued="abeEIoOpPsSuUX"),
    "ltrace": Opaque(valued="aADeFlnopsuwx"),
    "perf": Opaque(operands=1, valued="eopFg"),
    "valgrind": _PLAIN,
    "gdb": Opaque(command=False),
    # Multi-call programs and environments
    "busybox": _PLAIN,
    "toybox": _PLAIN,
    "proxychains": Opaque(valued="f"),
    "torsocks": _PLAIN,
    "devbox": Opaque(operands=1),
    "nix-shell": Opaque(script_long=("run", "command"), command=False),
    "mise": Opaque(operands=1),
    "asdf": Opaque(operands=2),
}  # fmt: skip

# `-c TEXT` runs the text; without it, the script is a file or standard input.
SHELLS: Final = frozenset({
    "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "oksh", "yash", "posh", "fish", "csh", "tcsh",
    "elvish", "nu", "pwsh", "powershell",
})  # fmt: skip

# Sub-commands of other programs that run the command after them. For deny rules; the arguments table makes them ask.
RUNNERS: Final = {
    ("npm", "exec"): _PLAIN,
    ("npm", "x"): _PLAIN,
    ("npx",): Opaque(valued="pw", script="c", script_long=("call",)),
    ("bunx",): _PLAIN,
    ("pnpm", "exec"): _PLAIN,
    ("pnpm", "dlx"): _PLAIN,
    ("yarn", "exec"): _PLAIN,
    ("yarn", "dlx"): _PLAIN,
    ("bundle", "exec"): _PLAIN,
    ("uv", "run"): Opaque(valued="p", valued_long=("python", "with", "package", "project", "directory", "env-file")),
    ("uvx",): _PLAIN,
    ("poetry", "run"): _PLAIN,
    ("pipenv", "run"): _PLAIN,
    ("hatch", "run"): _PLAIN,
    ("pdm", "run"): _PLAIN,
    ("rye", "run"): _PLAIN,
    ("conda", "run"): Opaque(valued="np"),
    ("git", "bisect", "run"): _PLAIN,
    ("git", "submodule", "foreach"): Opaque(joined=True),
    ("git", "rebase"): Opaque(script="x", script_long=("exec",), command=False),
    ("go", "run"): Opaque(command=False),
    ("docker", "exec"): Opaque(valued="euw", operands=1),
    ("docker", "run"): Opaque(valued="aceghlmnpuvw", operands=1),
    ("podman", "exec"): Opaque(valued="euw", operands=1),
    ("kubectl", "exec"): Opaque(valued="cnf", operands=1),
}
