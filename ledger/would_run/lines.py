"""The description of a request in lines, for tables, timelines and messages.

The texts are whole and as the agent wrote them; `cut` shortens one and says by how much.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from ledger.events import Asked
from ledger.session.state import Request

LINE_CHARS: Final = 200
"""Characters of a description in lists and lines; the request has the whole."""

Kind = Literal["command", "file", "search", "address", "query", "question", "plan", "tool", "patterns"]
Input = Mapping[str, Any]

SHELL_NAMES: Final = frozenset(
    {
        "bash", "shell", "sh", "zsh", "powershell", "execute", "exec", "exec_command", "local_shell", "terminal",
        "run_shell_command", "run_command",
    }
)  # fmt: skip
_FILES: Final = frozenset(
    {
        "read", "edit", "write", "patch", "multiedit", "apply_patch", "notebookedit", "notebookread", "list", "ls", "lsp",
        "delete", "move", "replace", "read_file", "write_file", "edit_file", "list_directory",
    }
)  # fmt: skip
_QUESTIONS: Final = frozenset({"question", "askuserquestion", "ask_user"})
_PLANS: Final = frozenset({"exitplanmode", "exit_plan_mode", "plan_exit", "plan"})
_SEARCHES: Final = frozenset({"glob", "grep", "search", "grep_search", "search_file_content"})
_ADDRESSES: Final = frozenset({"webfetch", "web_fetch", "fetch"})
_QUERIES: Final = frozenset({"websearch", "codesearch", "web_search", "google_web_search"})

PATH_NAMES: Final = ("file_path", "filePath", "filepath", "notebook_path", "path", "abs_path", "dir_path")
PATCH_NAMES: Final = ("patchText", "patch_text", "patch", "diff")
BEFORE_NAMES: Final = ("old_string", "oldString", "oldText")
AFTER_NAMES: Final = ("new_string", "newString", "newText", "new_source")
_ANYTHING: Final = "*"
_SPELLING: Final = str.maketrans("", "", " \t\n\"'\\")


class WouldRun(msgspec.Struct, frozen=True):
    """What a request would do.

    `texts` are shown one after the other; lines within one stay lines. `judged_as` are the patterns that the texts do
    not hold: rules were asked about these, so a reader shows them too.
    """

    kind: Kind
    texts: tuple[str, ...]
    judged_as: tuple[str, ...] = ()

    def in_words(self, limit_chars: int | None = LINE_CHARS) -> str:
        """Return the description as plain text."""
        shown = cut(", ".join(self.texts), limit_chars)
        return f"{shown} (judged as {cut(', '.join(self.judged_as), limit_chars)})" if self.judged_as else shown

    def in_line(self, limit_chars: int | None = LINE_CHARS) -> str:
        """Return the description for one line, each text in backticks; line breaks are left to the reader's escapes."""
        shown = quoted(self.texts, limit_chars)
        return f"{shown} (judged as {quoted(self.judged_as, limit_chars)})" if self.judged_as else shown


def cut(text: str, limit_chars: int | None) -> str:
    """Return the text, or its beginning and how many characters follow; None is no limit."""
    if limit_chars is None or len(text) <= limit_chars:
        return text
    return f"{text[:limit_chars]}… ({len(text) - limit_chars} more characters)"


def quoted(texts: Iterable[str], limit_chars: int | None = LINE_CHARS) -> str:
    """Return texts in backticks, cut to what a line can show."""
    return cut(", ".join(f"`{text}`" for text in texts), limit_chars)


def would_run(request: Request) -> WouldRun:
    """Describe a request; a settled one by what was kept of its description."""
    if request.input is None and request.told:
        return _with_patterns(WouldRun("tool", request.told), request.patterns, request.permission)
    return describe(
        request.permission,
        request.patterns,
        tool_name=request.tool_name,
        tool_input=request.input,
        metadata=request.metadata,
    )


def told_of(request: Request) -> tuple[str, ...]:
    """Return the texts to keep of a request whose input is dropped, each cut to a line; none where its patterns tell."""
    if request.input is None:
        return request.told
    texts = would_run(request).texts
    return () if texts == request.patterns else tuple(cut(text, LINE_CHARS) for text in texts)


def describe_asked(event: Asked) -> WouldRun:
    """Describe the call of an event; one whose free text is gone is told by its name."""
    detail = event.detail
    if detail is None:
        return describe(event.permission, tool_name=event.tool_name)
    return describe(
        event.permission,
        detail.patterns,
        tool_name=event.tool_name,
        tool_input=detail.input,
        metadata=detail.metadata,
    )


def describe(
    permission: str,
    patterns: Iterable[str] = (),
    *,
    tool_name: str | None = None,
    tool_input: Any = None,
    metadata: Input | None = None,
) -> WouldRun:
    """Describe a call by its tool and input, else by its patterns, else by its metadata, else by its name."""
    judged = tuple(patterns)
    said = metadata or {}
    found = None if tool_input is None else _of_input(permission, tool_name or permission, tool_input, said)
    if found is not None:
        return _with_patterns(found, judged, permission)
    if judged:
        return WouldRun("patterns", judged)
    command = _command(said)
    return WouldRun("tool", (tool_name or permission,)) if command is None else WouldRun("command", (command,))


def _of_input(permission: str, tool: str, given: Any, metadata: Input) -> WouldRun | None:
    if not isinstance(given, Mapping):
        return WouldRun("tool", (f"{tool} {_compact(given)}",))
    names = {tool.lower(), permission.lower()}
    for kind, known, tell in _TELLERS:
        texts = tell(given, metadata) if names & known else ()
        if texts:
            return WouldRun(kind, texts)
    return WouldRun("tool", (f"{tool} {_compact(given)}",)) if given else None


def _with_patterns(found: WouldRun, patterns: Iterable[str], permission: str) -> WouldRun:
    """Add what was judged and cannot be seen in the texts; quotes and blanks aside, which dialects write differently."""
    seen = "\n".join(found.texts).translate(_SPELLING)
    hidden = tuple(
        one for one in patterns if one not in (_ANYTHING, permission) and one.translate(_SPELLING) not in seen
    )
    return msgspec.structs.replace(found, judged_as=hidden) if hidden else found


def _command(given: Input) -> str | None:
    for name in ("command", "cmd"):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if (joined := joined_command(value)) is not None:
            return joined
    return None


def joined_command(value: Any) -> str | None:
    """Return a command that is given as a list of words as one line; None for anything else."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return None


def _commands(given: Input, _: Input) -> tuple[str, ...]:
    command = _command(given)
    return () if command is None else (command,)


def _questions(given: Input, _: Input) -> tuple[str, ...]:
    asked = given.get("questions")
    if not isinstance(asked, list) or not asked:
        return ()
    texts = [one.get("question") if isinstance(one, Mapping) else None for one in asked]
    return tuple(text for text in texts if isinstance(text, str)) if all(isinstance(one, str) for one in texts) else ()


def _plan(given: Input, _: Input) -> tuple[str, ...]:
    plan = given.get("plan")
    return (plan,) if isinstance(plan, str) and plan.strip() else ()


def _file(given: Input, metadata: Input) -> tuple[str, ...]:
    """The path, and below it what would change: `-` and `+` lines, the new content, or the patch as it was sent."""
    path = _text(given, *PATH_NAMES)
    changes = list(_changes(given)) or [one for one in (_text(given, *PATCH_NAMES), _text(metadata, "diff")) if one][:1]
    shown = [path, *changes] if path is not None else changes
    return ("\n".join(shown),) if shown else ()


def _changes(given: Input) -> Iterable[str]:
    edits = given.get("edits")
    for one in edits if isinstance(edits, list) else [given]:
        if not isinstance(one, Mapping):
            yield _compact(one)
            continue
        before, after = _text(one, *BEFORE_NAMES), _text(one, *AFTER_NAMES)
        if before:
            yield _marked("-", before)
        if after:
            yield _marked("+", after)
    if content := _text(given, "content"):
        yield _marked("+", content)


def _marked(mark: str, text: str) -> str:
    return "\n".join(f"{mark} {line}" for line in text.split("\n"))


def _search(given: Input, _: Input) -> tuple[str, ...]:
    pattern, path = _text(given, "pattern", "query"), _text(given, *PATH_NAMES)
    return () if pattern is None else (pattern,) if path is None else (f"{pattern} in {path}",)


def _member(*names: str) -> Callable[[Input, Input], tuple[str, ...]]:
    def tell(given: Input, _: Input) -> tuple[str, ...]:
        text = _text(given, *names)
        return (text,) if text else ()

    return tell


_TELLERS: Final[tuple[tuple[Kind, frozenset[str], Callable[[Input, Input], tuple[str, ...]]], ...]] = (
    ("question", _QUESTIONS, _questions),
    ("plan", _PLANS, _plan),
    ("command", SHELL_NAMES, _commands),
    ("file", _FILES, _file),
    ("search", _SEARCHES, _search),
    ("address", _ADDRESSES, _member("url")),
    ("query", _QUERIES, _member("query")),
)
"""Kinds, the tools of each by lower-case name, and their texts; the input of any other tool is shown whole."""


def _text(given: Input, *names: str) -> str | None:
    return next((value for name in names if isinstance(value := given.get(name), str)), None)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
