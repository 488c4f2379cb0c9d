"""Arguments that make an otherwise harmless program run, write or read something that its name does not suggest.

An allow rule for such a program does not cover them, unless a rule without wildcards spells the whole command.
`ledger.policy.shell.danger` interprets the entries. Sources are the programs' manuals; doubtful arguments are listed.
"""

from __future__ import annotations

from typing import Final

import msgspec


class DangerousArguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """The dangerous arguments of one program or one of its sub-commands.

    - `always`: it runs (or sends, or overwrites) its arguments, whatever they are; only `--version` alone is harmless.
    - `short`: letters, anywhere in a cluster (`-uo`); a `valued` letter ends a cluster and takes the rest as its value.
    - `long`: names without dashes; abbreviations count (`--outp`) unless `exact`. With `one_dash`, `-name` counts too
      and there are no clusters.
    - `pattern`: a regular expression that a whole word must not match.
    - `operands_max`: more operands than this are dangerous; `operand_options` take the next word as their value.
    - `leading`: the only options allowed in front of a sub-command. `subcommands` add to the entry of the program.
    - `script`: the words are a small program, of which only simple forms are harmless (`sed`, `awk`).
    - `old_style`: the first word may be a cluster without a dash (`tar xIf`).
    - `dashes_end`: `--` ends the options.
    """

    always: bool = False
    short: str = ""
    valued: str = ""
    long: tuple[str, ...] = ()
    one_dash: bool = False
    exact: bool = False
    pattern: str = ""
    operands_max: int | None = None
    operand_options: str = ""
    leading: frozenset[str] | None = None
    subcommands: dict[str, DangerousArguments] = {}
    script: str = ""
    old_style: bool = False
    dashes_end: bool = True


ALWAYS: Final = DangerousArguments(always=True)


def _long(
    names: str, short: str = "", valued: str = "", pattern: str = "", *, old_style: bool = False
) -> DangerousArguments:
    return DangerousArguments(
        short=short, valued=valued, long=tuple(names.split()), pattern=pattern, old_style=old_style
    )


def _words(names: str, pattern: str = "") -> DangerousArguments:
    """Return the entry of a program that spells long options with one dash."""
    return DangerousArguments(long=tuple(names.split()), one_dash=True, exact=True, pattern=pattern, dashes_end=False)


_URL = r"[a-zA-Z0-9.+-]+::.*|--?[a-z-]+=[a-zA-Z0-9.+-]+::.*"  # a transport that is a program: `ext::sh -c …`

_GIT = DangerousArguments(
    long=("exec", "ext-diff", "upload-pack", "receive-pack", "output", "output-directory", "open-files-in-pager"),
    pattern=r"--textc.*",  # `--text` is another option
    leading=frozenset(
        [
            "--no-pager",
            "-P",
            "--no-optional-locks",
            "--no-replace-objects",
            "--literal-pathspecs",
            "--glob-pathspecs",
            "--noglob-pathspecs",
            "--icase-pathspecs",
            "--version",
            "-v",
            "--help",
            "-h",
        ]
    ),
    subcommands={
        "grep": DangerousArguments(short="O", valued="efABCm"),
        "clone": DangerousArguments(
            short="uc", valued="obj", long=("template", "config", "separate-git-dir"), pattern=_URL
        ),
        "init": DangerousArguments(long=("template", "separate-git-dir")),
        "fetch": DangerousArguments(pattern=_URL),
        "pull": DangerousArguments(short="s", valued="XSjo", long=("strategy",), pattern=_URL),
        "push": DangerousArguments(pattern=_URL),
        "remote": DangerousArguments(pattern=_URL),
        "ls-remote": DangerousArguments(pattern=_URL),
        "merge": DangerousArguments(short="s", valued="mFXS", long=("strategy",)),
        "rebase": DangerousArguments(short="xis", valued="XSC", long=("interactive", "edit-todo", "strategy")),
        "archive": DangerousArguments(short="o", long=("remote",), pattern=_URL),
        "format-patch": DangerousArguments(short="o"),
        "submodule": DangerousArguments(pattern=rf"foreach|update|add|init|set-url|{_URL}"),
        "bundle": DangerousArguments(pattern="create|unbundle"),
        "config": DangerousArguments(
            short="ef",  # one operand reads, two write
            operands_max=1,
            long=("edit", "add", "replace-all", "unset", "unset-all", "rename-section", "remove-section", "file"),
            pattern="set|unset|edit|rename-section|remove-section",
        ),
        "branch": DangerousArguments(long=("edit-description",)),
        "bisect": DangerousArguments(pattern="run|replay|visualize|view"),
        "cat-file": DangerousArguments(long=("filters", "textconv")),
        "apply": DangerousArguments(long=("unsafe-paths",)),
        "interpret-trailers": DangerousArguments(long=("in-place",)),
        "help": DangerousArguments(short="wi", long=("web", "info")),
        **dict.fromkeys(
            [
                "difftool",
                "mergetool",
                "filter-branch",
                "filter-repo",
                "hook",
                "instaweb",
                "gui",
                "citool",
                "gitk",
                "send-email",
                "imap-send",
                "svn",
                "p4",
                "daemon",
                "cvsserver",
                "cvsimport",
                "cvsexportcommit",
                "archimport",
                "http-backend",
                "http-fetch",
                "http-push",
                "upload-pack",
                "receive-pack",
                "upload-archive",
                "shell",
                "fast-import",
                "fast-export",
                "web--browse",
                "credential",
                "credential-store",
                "credential-cache",
                "maintenance",
                "fsmonitor--daemon",
                "remote-ext",
                "remote-fd",
                "quiltimport",
                "for-each-repo",
                "difftool--helper",
                "mergetool--lib",
                "fetch-pack",
                "send-pack",
            ],
            ALWAYS,
        ),
    },
)

_NODE_PACKAGES = (
    "script-shell shell prefix globalconfig userconfig node-options editor viewer init-module browser git call cache"
    " scripts-prepend-node-path ignore-scripts tmp local-prefix global location workspace-root cwd dir"
)
_NPM = DangerousArguments(
    short="Cgc",
    long=tuple(_NODE_PACKAGES.split()),
    one_dash=True,
    pattern=r"-[Cgc].*",
    leading=frozenset(
        {"--silent", "-s", "--quiet", "-q", "--version", "-v", "--help", "-h", "--no-color", "--offline"}
    ),
    subcommands=dict.fromkeys(
        [
            "exec",
            "x",
            "init",
            "create",
            "innit",
            "edit",
            "explore",
            "config",
            "c",
            "set",
            "get-set",
            "publish",
            "unpublish",
            "adopt",
            "login",
            "adduser",
            "profile",
            "token",
            "owner",
            "access",
            "deprecate",
            "dist-tag",
            "hook",
            "org",
            "team",
            "star",
            "link",
            "ln",
            "rebuild",
            "rb",
            "repo",
            "docs",
            "home",
            "bugs",
            "issues",
            "help",
            "view-source",
            "dlx",
            "env",
            "setup",
            "import",
            "patch",
            "patch-commit",
            "deploy",
            "server",
            "store",
            "self-update",
            "node",
            "nodes",
            "global",
            "pkg",
        ],
        ALWAYS,
    ),
)

_GO = DangerousArguments(
    long=(
        "exec",
        "toolexec",
        "vettool",
        "o",
        "overlay",
        "c",
        "modfile",
        "C",
        "pkgdir",
        "ldflags",
        "gcflags",
        "asmflags",
        "gccgoflags",
        "compiler",
        "coverprofile",
        "cpuprofile",
        "memprofile",
        "blockprofile",
        "mutexprofile",
        "trace",
        "outputdir",
        "test.coverprofile",
        "test.cpuprofile",
        "test.memprofile",
        "test.blockprofile",
        "test.mutexprofile",
        "test.trace",
        "test.outputdir",
        "fix",
        "debug-trace",
    ),
    one_dash=True,
    exact=True,
    leading=frozenset(),
    subcommands={
        **dict.fromkeys(
            ["run", "generate", "tool", "install", "get", "work", "bug", "clean", "fix", "telemetry"], ALWAYS
        ),
        "env": _words("w u"),
        "mod": DangerousArguments(pattern="edit"),
    },
    dashes_end=False,
)

# Programs that always run, send or overwrite their arguments
_ALWAYS: Final = (
    # editors and pagers with a shell inside
    "vi vim nvim ex ed emacs emacsclient nano pico joe micro helix hx kak mcedit code codium subl"
    # interpreters
    " python perl ruby node deno php lua luajit tclsh wish rscript julia java groovy scala kotlin jshell ghci runghc"
    " osascript guile racket sbcl erl elixir iex irb pry swipl octave m4 dc bc tsx ts-node nodemon gnuplot"
    # programs that run other people's packages
    " npx bunx uvx pipx pnpx dlx corepack devbox nix nix-build nix-env guix"
    # other machines
    " mail mailx mutt scp sftp telnet ftp lftp nc ncat netcat socat mosh rlogin rsh rclone ansible ansible-playbook vagrant"
    # databases with a shell escape
    " sqlite3 sqlite psql mysql mariadb mongo mongosh redis-cli"
    # terminals, timers and debuggers
    " tmux screen zellij crontab at batch gdb lldb ldd run-parts sponge nsenter expect xdotool watch"
    # documents that are programs
    " latex pdflatex xelatex lualatex tex ghostscript gs convert magick mogrify ffmpeg pandoc groff troff"
    # machines of their own
    " qemu podman ctr crictl nerdctl multipass lxc"
)

ARGUMENTS: Final[dict[str, DangerousArguments]] = {
    # --- version control, builds and packages ------------------------------------------------------------------
    "git": _GIT,
    "hg": _long("config configfile cwd repository", short="R", pattern=r"serve|extdiff|fold|histedit"),
    "svn": _long("config-dir config-option diff-cmd diff3-cmd merge-cmd editor-cmd", pattern=r"svn\+.*"),
    "gh": DangerousArguments(
        leading=frozenset({"--version", "--help"}),
        subcommands=dict.fromkeys(["alias", "extension", "ext", "codespace", "cs", "browse", "config", "api", "auth", "gist", "ssh-key", "secret"], ALWAYS),
    ),
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _NPM,
    "bun": DangerousArguments(
        short="rec",
        long=("preload", "require", "import", "config", "cwd", "eval", "print", "env-file", "shell", "inspect"),
        one_dash=True,
        leading=frozenset({"--version", "-v", "--help", "--silent"}),
        subcommands={
            **dict.fromkeys(["x", "exec", "create", "init", "link", "repl", "upgrade"], ALWAYS),
            "run": DangerousArguments(pattern=r".*/.*|.*\.[cm]?[jt]sx?"),  # a file; a name would be a script of the package
        },
    ),
    "cargo": DangerousArguments(
        short="CZ",
        long=("config", "manifest-path", "target-dir", "out-dir", "artifact-dir", "lockfile-path", "fix"),
        leading=frozenset({"--version", "-V", "--help", "-q", "--quiet", "--locked", "--offline", "--frozen", "--list"}),
        pattern=r"\+.*",
        subcommands=dict.fromkeys(["run", "r", "install", "watch", "x", "xtask", "make", "fix", "login", "publish", "owner", "generate", "init", "new"], ALWAYS),
    ),
    "rustc": ALWAYS,
    "go": _GO,
    "make": DangerousArguments(
        short="fCIE",
        valued="jlWo",
        long=("file", "makefile", "directory", "include-dir", "eval", "environment-overrides"),
        pattern=r"[A-Za-z_][A-Za-z0-9_.]*[:+?!]*=.*",
    ),
    "cmake": _long("build install workflow", short="PECD", pattern=r"-D.*"),
    "ninja": _long("", short="fCt"),
    "just": _long("justfile working-directory set shell shell-arg dotenv-path command edit evaluate", short="fdc"),
    "pip": _long(
        "config python target prefix root src build log cert cache-dir index-url extra-index-url find-links",
        short="tif",
    ),
    "uv": DangerousArguments(pattern=r"run|tool|x|python|init|publish", long=("config-file", "directory", "project", "python")),
    "poetry": DangerousArguments(pattern=r"run|config|shell|publish|self", long=("directory", "project")),
    "bundle": DangerousArguments(pattern=r"exec|config|open|console|gem|plugin|init", long=("gemfile", "path")),
    "rake": _long("rakefile require eval execute execute-continue execute-print libdir", short="fIreEp"),
    "composer": DangerousArguments(pattern=r"exec|global|config|run-script|create-project|run", short="d", long=("working-dir",)),
    "mvn": DangerousArguments(short="fDsgtl", long=("file", "define", "settings", "global-settings", "toolchains", "log-file"), pattern=r"exec:.*"),
    "gradle": DangerousArguments(
        short="bcDIPgp",
        long=("build-file", "settings-file", "init-script", "system-prop", "project-prop", "project-dir", "gradle-user-home"),
    ),
    "gcc": _words("o wrapper B specs fplugin save-temps dumpdir MF MD MMD", pattern=r"@.*|-(?:o|B|fplugin|specs|Wl|Wp|Wa|Xlinker|MF).*"),
    "docker": DangerousArguments(
        leading=frozenset({"--version", "-v"}),
        subcommands=dict.fromkeys(
            ["run", "exec", "build", "buildx", "compose", "create", "cp", "plugin", "context", "save", "export", "load", "import", "commit", "container", "stack", "swarm"],
            ALWAYS,
        ),
    ),
    "kubectl": DangerousArguments(
        leading=frozenset(),
        long=("kubeconfig", "raw", "server", "token", "as", "template", "cache-dir"),
        subcommands=dict.fromkeys(["exec", "run", "cp", "edit", "proxy", "port-forward", "attach", "debug", "plugin", "config", "kustomize"], ALWAYS),
    ),
    "helm": _long("post-renderer kubeconfig output-dir"),
    "terraform": DangerousArguments(pattern=r"-chdir.*|-?-?plugin-dir.*|console|apply|destroy|init"),
    "pytest": _long(
        "plugins confcutdir rootdir config-file override-ini basetemp junitxml junit-xml pastebin log-file import-mode pdb trace"
        " result-log report-log pythonpath debug",
        short="pco",
        valued="kmrWn",
    ),
    "eslint": _long("config rulesdir resolve-plugins-relative-to plugin parser format fix output-file init cache-location", short="cfo"),
    "prettier": _long("write plugin config plugin-search-dir", short="w"),
    "jest": _long("config globalSetup globalTeardown setupFiles setupFilesAfterEnv runner testRunner resolver transform reporters rootDir", short="c"),
    "mypy": _long("config-file python-executable install-types cache-dir html-report xml-report txt-report junit-xml custom-typeshed-dir"),
    "ruff": _long("fix config output-file cache-dir unsafe-fixes add-noqa", short="o", pattern="clean|server"),
    "tsc": _words("outDir outFile generateTrace generateCpuProfile tsBuildInfoFile", pattern=r"@.*"),
    # --- looking at text and files ----------------------------------------------------------------------------
    "rg": _long("pre hostname-bin search-zip", short="z", valued="efgtTABCmrjEMd"),
    "ag": _long("pager", valued="ABCmGgWp"),
    "ack": _long("pager output ackrc", pattern=r"--(?:type-|ignore-ack).*"),
    "fd": _long("exec exec-batch", short="xX", valued="eEtSdjoc"),
    "bat": _long("pager generate-config-file", pattern="cache"),
    "find": _words("exec execdir ok okdir delete fls fprint fprint0 fprintf files0-from"),
    "sed": DangerousArguments(script="sed"),
    "awk": DangerousArguments(script="awk"),
    "sort": _long("output compress-program temporary-directory files0-from", short="oT", valued="ktS"),
    "uniq": DangerousArguments(operands_max=1, operand_options="fsw"),
    "tee": DangerousArguments(operands_max=0),
    "split": ALWAYS,
    "csplit": ALWAYS,
    "shuf": _long("output", short="o", valued="in"),
    "tree": _long("output fromfile", short="oR", valued="LPI"),
    "file": _long("compile uncompress uncompress-noreport files-from magic-file", short="CzZfm", valued="FeP"),
    "diff": _long("paginate", short="l", valued="CUDFILSXxW"),
    "sdiff": _long("output diff-program", short="o"),
    "diff3": _long("diff-program"),
    "xxd": DangerousArguments(short="r", valued="clnosg", long=("revert",), operands_max=1, operand_options="clnosg"),
    "jq": _long("from-file library-path run-tests", short="fL"),
    "yq": _long("inplace split-exp front-matter from-file", short="is", pattern=r"(?s:.*\b(?:load|load_str|system)\b.*)"),
    "less": _long("log-file LOG-FILE lesskey-file lesskey-src lesskey-content tag-file tag cmd", short="oOkTt", pattern=r"\+.*"),
    "more": DangerousArguments(pattern=r"\+.*"),
    "most": DangerousArguments(pattern=r"\+.*"),
    "man": _long(
        "pager html config-file preprocessor local-file gxditview troff troff-device ditroff manpath path whatis extension",
        short="PHCplXTtZM",
        pattern=r".*/.*",  # a page in the working directory
    ),
    "info": _long("output init-file dribble restore", short="o", valued="fdnk"),
    "date": DangerousArguments(short="sf", valued="drI", long=("set", "file"), pattern=r"[0-9]{8,12}(?:\.[0-9]+)?"),
    "test": DangerousArguments(pattern=r"-[vR]|(?s:.*(?:\$\(|`|\[).*)", dashes_end=False),
    "wait": DangerousArguments(short="p"),
    "iconv": _long("output", short="o"),
    "nm": _long("plugin"),
    "ar": _long("plugin"),
    "printf": DangerousArguments(short="v", pattern=r"(?s:(?:%%|[^%]|%[^%a-zA-Z]*[a-mo-zA-Z])*+%[^%a-zA-Z]*n.*)"),
    "history": DangerousArguments(short="acdnrsw"),
    "hostname": _long("file boot", short="Fb", pattern=r"[^-].*"),
    "ip": _long("batch force", short="bB", valued="fnlr", pattern=r"netns|exec|vrf"),
    "journalctl": _long("file root directory image vacuum-size vacuum-time rotate flush setup-keys", short="D", valued="nubtpSUgoFM"),
    "openssl": DangerousArguments(pattern=r"-(?:engine|config|out|provider|provider-path|writerand|exec|keyout|CAfile|passout).*|s_client|s_server|engine"),
    "curl": _long(
        "output remote-name remote-name-all config upload-file dump-header cookie-jar output-dir engine etag-save libcurl"
        " trace trace-ascii stderr hsts alt-svc netrc-file proxy preproxy unix-socket abstract-unix-socket remote-header-name",
        short="oOKTDcJ",
        valued="HXdAeumxFrYyzCbEPQtUw",
        pattern=r"(?s:.*%output\{.*)",
    ),
    "wget": ALWAYS,
    # --- archives ----------------------------------------------------------------------------------------------
    "tar": _long(
        "use-compress-program to-command checkpoint-action info-script new-volume-script rsh-command rmt-command index-file"
        " files-from listed-incremental absolute-names remove-files volno-file",
        short="IFTgPK",
        valued="fbCHLNVX",
        old_style=True,
        pattern=r"[^-].*:.*|-[a-zA-Z]*f.+:.*|--file=.*:.*|--f[a-z]*=.*:.*",
    ),
    "zip": DangerousArguments(short="TOm", long=("unzip-command", "test", "output-file", "move")),
    "cpio": _long("rsh-command file", short="FIO", valued="HMEC"),
    "rsync": _long("rsh rsync-path log-file write-batch daemon config files-from temp-dir remove-source-files", short="eM", pattern=r".*::?.*"),
    "patch": ALWAYS,
    "dd": DangerousArguments(pattern=r"of=.*|conv=.*|oflag=.*"),
    "truncate": ALWAYS,
    "install": _long("strip-program", short="s", valued="mogtS"),
    "gpg": _long(
        "output homedir exec-path photo-viewer agent-program dirmngr-program pinentry-mode options log-file passphrase-file"
        " import edit-key export-secret-keys keyserver status-file logger-file",
        short="o",
    ),
    "ctags": _long("options output-append filter", short="fo"),
    **dict.fromkeys(_ALWAYS.split(), ALWAYS),
}  # fmt: skip
ARGUMENTS.update(
    {
        "clang": ARGUMENTS["gcc"],
        "g++": ARGUMENTS["gcc"],
        "clang++": ARGUMENTS["gcc"],
        "cc": ARGUMENTS["gcc"],
        "c++": ARGUMENTS["gcc"],
    }
)
ARGUMENTS.update(
    {"docker-compose": ALWAYS, "gradlew": ARGUMENTS["gradle"], "mvnw": ARGUMENTS["mvn"], "pip3": ARGUMENTS["pip"]}
)
