"""OpenCode 1.18 requests: a permission, its patterns, and directories outside the project; names of permissions.

Also the places of a call, and the words that identify a command (opencode.md, "Command Arity System"): the longest entry
whose words begin the command applies; a program without an entry counts for one word. Options count as words.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Rule
from ledger.policy.facts import FileFacts, FileKind
from ledger.policy.loader import permission_of
from ledger.policy.shell.forms.objections import named_paths
from ledger.policy.shell.model import Analysis, ShellCommand, Word, accesses
from ledger.policy.shell.names import basename
from ledger.policy.shell.parse import source_commands
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import UNKNOWN_FOLDER, UNKNOWN_HOME, absolute, leads_out, readable, within

_ROOT: Final = "/"
_REPOSITORY: Final = ".git"


class OpenCodePlaces(msgspec.Struct, frozen=True):
    """The directories of a call.

    `directory` is its own, `worktree` the root of the repository; `roots` count as inside. All are absolute; `home` may
    be unknown. `deep` is for the hardened profile: it also follows links, and a path whose links lead outside counts as
    outside; while the project is unknown, every path does. `sandbox` is a further directory that `cd` may enter.
    """

    directory: str
    worktree: str
    roots: tuple[str, ...]
    home: str | None
    facts: FileFacts
    deep: bool
    sandbox: str | None = None

    def absolute(self, path: str, base: str | None = None) -> str:
        """Return a path from `base` (default: the directory) without `.` and `..`, without file access."""
        return absolute(path, base or self.directory)

    def from_worktree(self, path: str) -> str:
        """Return the path that rules match: relative to the worktree; the worktree itself is the empty string."""
        if within(path, UNKNOWN_HOME):
            return readable(path)
        root = self.worktree + "/"
        if path.startswith(root) and "//" not in path and "/." not in path:
            return path[len(root) :].rstrip("/")
        found = posixpath.relpath(path, self.worktree)
        return "" if found == "." else found

    def outside(self, path: str) -> bool:
        """Return whether an absolute path is in none of the roots."""
        for root in self.roots:
            if within(path, root):
                break
        else:
            return True
        return self.deep and not self._leads_into(self.facts.resolve(path), self.roots)

    def reached(self, path: str, base: str) -> str:
        """Return a path from `base`, or what its links lead to outside the roots (opencode.md "Bash Tool Permission Flow").

        If `deep`, always the path as written: the hardened profile judges both.
        """
        full = self.absolute(path, base)
        resolved = full if self.deep else posixpath.normpath(self.facts.resolve(posixpath.join(base, path)))
        return full if self._leads_into(resolved, self.roots) else resolved

    def _leads_into(self, resolved: str, roots: Iterable[str]) -> bool:
        return any(within(resolved, root) or within(resolved, self.facts.resolve(root)) for root in roots)

    def is_directory(self, path: str) -> bool:
        return self.facts.kind(path) is FileKind.DIRECTORY

    def expand(self, path: str) -> str:
        """Expand `~` and `~/…` to the home directory; an unknown home is in no root."""
        if path == "~" or path.startswith("~/"):
            return (UNKNOWN_HOME if self.home is None else self.home.rstrip("/")) + path[1:]
        return path

    def enter(self, directory: str, target: str) -> str | None:
        """Return the directory that `cd target` enters, links followed; None if it is outside or unknown."""
        path = self.absolute(target, directory)
        roots = self.roots if self.sandbox is None else (*self.roots, self.sandbox)
        return path if self._leads_into(self.facts.resolve(path), roots) else None


def worktree_of(directory: str, facts: FileFacts) -> str:
    """Return the root of the repository that contains a directory; the directory itself if none is known."""
    folder = posixpath.normpath(directory)
    while folder not in (_ROOT, UNKNOWN_FOLDER):
        if facts.kind(f"{folder}/{_REPOSITORY}") is not None:
            return folder
        folder = folder.rpartition("/")[0] or _ROOT
    return directory


def below(folder: str) -> str:
    """Return the pattern for everything in a directory."""
    return posixpath.join(readable(folder), "*")


_ONE_WORD: Final = """
    cat cd chmod chown cp echo env export grep kill killall ln ls mkdir mv ps pwd rm rmdir sleep source tail
    touch unset which
"""

_TWO_WORDS: Final = """
    bazel brew bun cargo cdk cf cmake composer consul crictl deno docker eksctl firebase flyctl git go gradle
    helm heroku hugo ip kind kubectl kustomize make mc minikube mongosh mvn mysql ng npm nvm nx openssl pip
    pipenv pnpm podman poetry psql pulumi pyenv python rake rbenv redis-cli rustup serverless skaffold sls sst
    swift systemctl terraform tmux turbo ufw vault vercel volta wp yarn
"""

_THREE_WORDS: Final = """
    aws az doctl gcloud gh sfdx
"""

# Programs of two words whose second word needs a third.
_SUBCOMMANDS_OF_THREE: Final = {
    "bun": "run x",
    "cargo": "add run",
    "consul": "kv",
    "deno": "task",
    "docker": "builder compose container image network volume",
    "eksctl": "create",
    "git": "config remote stash",
    "ip": "addr link netns route",
    "kind": "create",
    "kubectl": "kustomize rollout",
    "mc": "admin",
    "npm": "exec init run view",
    "openssl": "req x509",
    "pnpm": "dlx exec run",
    "podman": "container image",
    "pulumi": "stack",
    "terraform": "workspace",
    "vault": "auth kv",
    "yarn": "dlx run",
}


def _arity_entries() -> dict[str, int]:
    found = dict.fromkeys(_ONE_WORD.split(), 1) | dict.fromkeys(_TWO_WORDS.split(), 2)
    found |= dict.fromkeys(_THREE_WORDS.split(), 3)
    for program, words in _SUBCOMMANDS_OF_THREE.items():
        found |= {f"{program} {word}": 3 for word in words.split()}
    return found


ARITY: Final[Mapping[str, int]] = MappingProxyType(_arity_entries())
"""Words, joined by one space, and the number of words that are kept of a command that begins with them."""

_ENTRY_WORDS_MAX: Final = 2


def prefix(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that identify a command; all of them if there are fewer than its entry says."""
    for length in range(min(len(words), _ENTRY_WORDS_MAX), 0, -1):
        arity = ARITY.get(" ".join(words[:length]))
        if arity is not None:
            return tuple(words[:arity])
    return tuple(words[:1])


PERMISSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read": "reading a file or directory; pattern: its path from the worktree",
        "edit": "changing a file (edit, write, patch, multiedit, apply_patch); pattern: its path from the worktree",
        "glob": "finding files by name; pattern: the glob",
        "grep": "searching in files; pattern: the regular expression",
        "list": "listing a directory; pattern: its path from the worktree",
        "bash": "running a shell command; pattern: the source text of each command of the line",
        "task": "starting a sub-agent; pattern: its name",
        "external_directory": "touching what is outside the project; pattern: the directory and `/*`",
        "todowrite": "writing the list of things to do",
        "todoread": "reading the list of things to do",
        "question": "asking the user a question",
        "webfetch": "fetching a page; pattern: its address",
        "websearch": "searching the web; pattern: the query",
        "codesearch": "searching public code; pattern: the query",
        "lsp": "asking a language server",
        "doom_loop": "going on after the same call was made again and again; pattern: the tool's name",
        "write": "writing a file, besides `edit`, which it asks: a rule that asks or denies counts for this tool too",
    }
)
"""The 16 names of opencode.md, and `write` of opencode-zh.md."""

OTHER_PERMISSIONS: Final = frozenset({"skill", "plan_enter", "plan_exit"})
"""Names that the current program asks for and the pages do not list."""

ACTION_ONLY: Final = frozenset({"todowrite", "question", "webfetch", "websearch", "doom_loop"})
"""Keys that take an action and no object of patterns."""


def unknown_permissions(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return rules whose permission is neither known nor a wildcard. They are valid, but may be typing errors."""
    known = PERMISSIONS.keys() | OTHER_PERMISSIONS
    return tuple(rule for rule in rules if rule.permission not in known and not set("*?") & set(rule.permission))


# --- the files of a patch
_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_FILE: Final = late_pattern(r"\*\*\* (?:Add|Delete|(?P<update>Update)) File:(?P<path>.*)")
_MOVE: Final = "*** Move to:"


class PatchedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that a patch adds, changes or deletes, and the target if it is moved; both as written."""

    path: str
    moved_to: str | None = None


def patched_files(text: str) -> tuple[PatchedFile, ...]:
    """Return the files of a patch in order; none if it has no beginning or no end.

    A header counts anywhere between the two: an extra one causes an unnecessary question, a missed one would leave a
    file unchecked.
    """
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    if _BEGIN not in stripped or _END not in stripped:
        return ()
    found: list[PatchedFile] = []
    start, end = stripped.index(_BEGIN), len(stripped) - 1 - stripped[::-1].index(_END)
    for index in range(start + 1, end):
        header = _FILE.match(lines[index])
        if header is None or not (path := header["path"].strip()):
            continue
        after = lines[index + 1] if header["update"] else ""
        found.append(PatchedFile(path, after.removeprefix(_MOVE).strip() or None if after.startswith(_MOVE) else None))
    return tuple(found)


# --- tools
_ANY: Final = ("*",)


class OpenCodeRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The permission request of a tool call.

    `directories` are the patterns of `external_directory`, one tuple for each request that is made first, in order.
    `command` is the whole line of a shell call and `base` its working directory. `more` are patterns that the program
    omits and the hardened profile also judges.
    """

    permission: str
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = _ANY
    directories: tuple[tuple[str, ...], ...] = ()
    command: str | None = None
    base: str | None = None
    more: tuple[str, ...] = ()


ToolInput = Mapping[str, Any]


def tool_request(tool: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    """Return the request of any tool except the shell; None if its input lacks the required members.

    Paths are as `OpenCodePlaces.from_worktree` gives them. An unknown tool, for example of an MCP server, asks for `*`.
    """
    permission = permission_of(tool)
    make = TOOLS.get(tool)
    return make(permission, value, places) if make else OpenCodeRequest(permission, _ANY)


def _file(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    path = _text(value, "filePath")
    if path is None:
        return None
    full = places.absolute(path)
    kept = permission == "read" and places.is_directory(full)
    return OpenCodeRequest(
        permission, (places.from_worktree(full),), directories=_directories(full, places, itself=kept)
    )


def _list(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest:
    full = places.absolute(_text(value, "path") or ".")
    return OpenCodeRequest(
        permission, (places.from_worktree(full),), directories=_directories(full, places, itself=True)
    )


def _search(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    pattern = _text(value, "pattern")
    if pattern is None:
        return None
    full = places.absolute(_text(value, "path") or ".")
    itself = permission == "glob" or places.is_directory(full)
    return OpenCodeRequest(permission, (pattern,), directories=_directories(full, places, itself=itself))


def _patch(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    text = _text(value, "patchText")
    files = patched_files(text) if text is not None else ()
    if not files:
        return None
    asked: dict[tuple[str, ...], None] = {}
    for file in files:
        for path in (file.path, file.moved_to):
            asked.update(dict.fromkeys(_directories(places.absolute(path), places, itself=False) if path else ()))
    patterns = tuple(places.from_worktree(places.absolute(file.path)) for file in files)
    moved = tuple(places.from_worktree(places.absolute(file.moved_to)) for file in files if file.moved_to)
    return OpenCodeRequest(permission, patterns, directories=tuple(asked), more=moved)


def _lsp(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    path = _text(value, "filePath")
    if path is None:
        return None
    return OpenCodeRequest(permission, _ANY, directories=_directories(places.absolute(path), places, itself=False))


def _external(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
    path = _text(value, "filepath") or _text(value, "filePath") or _text(value, "path")
    if path is None:
        return None
    full = places.absolute(path)
    found = _directories(full, places, itself=places.is_directory(full))
    patterns = found[0] if found else ()
    return OpenCodeRequest(permission, patterns, patterns)


def _named(*members: str, itself: bool = False) -> Callable[[str, ToolInput, OpenCodePlaces], OpenCodeRequest | None]:
    """Return a maker of requests for one text of the input; with `itself`, `always` covers only that text."""

    def make(permission: str, value: ToolInput, places: OpenCodePlaces) -> OpenCodeRequest | None:
        text = next((found for member in members if (found := _text(value, member)) is not None), None)
        if text is None:
            return None
        return OpenCodeRequest(permission, (text,), (text,) if itself else _ANY)

    return make


TOOLS: Final[Mapping[str, Callable[[str, ToolInput, OpenCodePlaces], OpenCodeRequest | None]]] = {
    "read": _file,
    "edit": _file,
    "write": _file,
    "multiedit": _file,
    "patch": _patch,
    "apply_patch": _patch,
    "glob": _search,
    "grep": _search,
    "list": _list,
    "lsp": _lsp,
    "external_directory": _external,
    "webfetch": _named("url"),
    "websearch": _named("query"),
    "codesearch": _named("query"),
    "task": _named("subagent_type"),
    "skill": _named("name", itself=True),
    "doom_loop": _named("tool", itself=True),
}


def _text(value: ToolInput, member: str) -> str | None:
    found = value.get(member)
    return found if isinstance(found, str) and found else None


def _directories(path: str, places: OpenCodePlaces, *, itself: bool) -> tuple[tuple[str, ...], ...]:
    if not places.outside(path):
        return ()
    return ((below(path if itself else posixpath.dirname(path)),),)


# --- shell lines
ENTERING: Final = frozenset({"cd", "chdir", "popd", "pushd", "push-location", "set-location"})
"""Commands that only change the directory; they add no pattern."""

FILE_COMMANDS: Final = ENTERING | {
    "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat",
    "get-content", "set-content", "add-content", "copy-item", "move-item", "remove-item", "new-item", "rename-item",
}  # fmt: skip
_WILD: Final = late_pattern(r"[*?\\]")
_GLOB: Final = late_pattern(r"[?*\[]")
_QUOTED_CHARS_MIN: Final = 2
_STREAMS: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})


def shell_request(
    command: str, workdir: str | None, places: OpenCodePlaces, *, tail: str = " *"
) -> OpenCodeRequest | None:
    """Return the request of the shell tool; None for a line that is too long or too complex to parse.

    `tail` is appended to a command's prefix in `always`.
    """
    found = source_commands(command)
    if found is None:
        return None
    base = places.absolute(workdir) if workdir else places.directory
    named = [one for one in found if one.words and one.words[0].raw not in ENTERING]
    folders = list(_outside_folders(found, base, places))
    if (workdir or places.roots) and places.outside(base):
        folders.append(base)
    patterns = tuple(dict.fromkeys(map(below, folders)))
    return OpenCodeRequest(
        "bash",
        tuple(dict.fromkeys([one.statement for one in named])),
        tuple(dict.fromkeys([" ".join(prefix([word.raw for word in one.words])) + tail for one in named])),
        (patterns,) if patterns else (),
        command,
        base,
    )


def offered(analysis: Analysis, request: OpenCodeRequest, tail: str) -> tuple[str, ...]:
    """Return the `always` entries of the hardened profile; a command with a redirection to a file is spelled whole.

    A pattern for its words alone would not cover it: the file would be asked about the next time.
    """
    if not analysis.redirects_only or analysis.flow is not None:
        return request.always
    named = [one for one in analysis.top if one.words and one.words[0].raw not in ENTERING]
    return tuple(dict.fromkeys(entry for one in named for entry in _entries(one, request.patterns, tail)))


def _entries(command: ShellCommand, patterns: Sequence[str], tail: str) -> Iterator[str]:
    is_redirected = any(map(accesses, command.redirects))
    # The grammar assigns a redirection at the end of a pipeline to the whole pipeline: then the words are a pattern too.
    if not is_redirected or command.statement not in patterns:
        yield " ".join(prefix([word.raw for word in command.words])) + tail
    if is_redirected and not _WILD.search(command.statement):
        yield command.statement


def hidden_directories(analysis: Analysis, base: str, places: OpenCodePlaces) -> tuple[str, ...]:
    """Return the directories that the program misses: behind quotes, wrappers, and in commands it does not parse."""
    bare = [_bare(command) for command in analysis.commands if command.words]
    folders = [*_outside_folders(bare, base, places), *_named_outside(analysis.commands, base, places)]
    return tuple(dict.fromkeys(map(below, folders)))


def _named_outside(commands: Iterable[ShellCommand], base: str, places: OpenCodePlaces) -> Iterator[str]:
    for command in commands:
        for path in named_paths(command) if command.words else ():
            if path not in _STREAMS and leads_out(path, base, places.roots, places.facts, places.home):
                full = places.absolute(places.expand(path), base)
                yield full if places.is_directory(full) else posixpath.dirname(full)


def _bare(command: ShellCommand) -> ShellCommand:
    texts = [loosen(word) for word in command.words]
    return ShellCommand(command.text, tuple(Word(text, text) for text in (basename(texts[0]), *texts[1:])))


def _outside_folders(commands: Iterable[ShellCommand], base: str, places: OpenCodePlaces) -> Iterable[str]:
    for command in commands:
        words = [word.raw for word in command.words]
        if not words or words[0] not in FILE_COMMANDS:
            continue
        for written in _paths(words, places):
            path = places.reached(written, base)
            if places.outside(path):
                yield path if places.is_directory(path) else posixpath.dirname(path)


def _paths(words: Sequence[str], places: OpenCodePlaces) -> Iterable[str]:
    for word in words[1:]:
        if word.startswith("-") or (words[0] == "chmod" and word.startswith("+")):
            continue
        text = places.expand(_unquoted(word))
        glob = _GLOB.search(text)
        written = text[: glob.start()] if glob else text
        if written and not written.startswith("(") and "$" not in written and "`" not in written:
            yield written


def _unquoted(word: str) -> str:
    if len(word) >= _QUOTED_CHARS_MIN and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return word
