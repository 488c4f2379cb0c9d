"""A policy that also denies agents access to the ledger itself. Hardened only; no rule or grant lifts it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, RuleRef, Verdict
from ledger.policy.facts import FileFacts, NoFacts
from ledger.policy.inputs import COMMANDS, WRITTEN, may_be_path, members, patched, texts_in
from ledger.policy.own.commands import OwnCommands, Touched, touched
from ledger.policy.own.paths import DATA, HOOKS, Hit, OwnPaths, joined
from ledger.policy.shell.text import shorten

LAYER: Final = "permission-ledger"
"""The layer name that the denying rule is reported with."""

_RULE: Final = RuleRef("the ledger guards itself (hardened)", LAYER)

_SHELLS: Final = frozenset(
    ("bash", "shell", "sh", "run_shell_command", "shell_command", "local_shell", "exec", "exec_command", "execute",
     "terminal", "run_terminal_cmd", "powershell", "monitor")
)  # fmt: skip
_READERS: Final = frozenset(
    ("read", "view", "glob", "glob_search", "grep", "list", "ls", "notebookread", "read_file", "read_many_files", "search",
     "webfetch")
)  # fmt: skip


class GuardingPolicy:
    """Judges as `policy` does, denies every call that touches the ledger itself, and asks about one that may."""

    def __init__(self, policy: Policy, folders: Iterable[str], facts: FileFacts) -> None:
        self._policy = policy
        self._paths = OwnPaths(folders)
        self._commands = OwnCommands(self._paths)
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        # A dialect's attributes beyond the protocol (a confirm request, its rules) are passed through.
        return getattr(self._policy, name)

    @property
    def source(self) -> PolicySource:
        return self._policy.source

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Return the policy's own evaluation, or a stricter one that names the part of the ledger that the call touches.

        A deny, or an ask for a glob that may stand for a file of the ledger; where nobody is asked, it is a deny too.
        """
        found = self._policy.evaluate(call, grants)
        if found.verdict is Verdict.DENY:
            return found
        touches = self._touched(call)
        if touches is None:
            return found
        text, (what, verdict) = touches
        part = Part(shorten(text), verdict, (_RULE,), liftable=False)
        if verdict is Verdict.ASK and _asks_people(self.source):
            reason = f"`{shorten(text)}` may touch {what}, for which a pattern in it may stand"
            rules = (*found.rules, _RULE) if found.verdict is Verdict.ASK else (_RULE,)
            return replace(found, verdict=verdict, parts=(*found.parts, part), rules=rules, reason=reason, always=())
        reason = (
            f"`{shorten(text)}` touches {what}: the ledger keeps itself from the agents that it judges, whatever rules "
            "and grants say; do it yourself, in a terminal of your own"
        )
        return replace(
            found, verdict=Verdict.DENY, parts=(replace(part, verdict=Verdict.DENY),), rules=(_RULE,),
            message=f"Denied by rule: {reason}", reason=reason, always=(), ask_first=(),
        )  # fmt: skip

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        return self._policy.lifts(grant, permission, part)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        return self._policy.disabled(tools)

    def _touched(self, call: Call) -> tuple[str, Touched] | None:
        """Return the text of a call that touches the ledger, a deny before an ask."""
        asked = None
        for text, found in self._touching(call):
            if found is not None and found.verdict is Verdict.DENY:
                return text, found
            asked = asked or (found and (text, found))
        return asked

    def _touching(self, call: Call) -> Iterator[tuple[str, Touched | None]]:
        folder = self._folder(call)
        for line in _lines(call):
            if self._commands.may_touch(line):
                yield line, self._commands.touched(line, folder)
        reads = {call.permission.lower(), (call.tool_name or "").lower()} & _READERS
        for path in _paths(call):
            yield path, self._path(joined(folder, path), folder, reads=bool(reads))

    def _folder(self, call: Call) -> str:
        folder = call.cwd or self.source.options.get("cwd")
        return folder if isinstance(folder, str) else "."

    def _path(self, path: str, folder: str, *, reads: bool) -> Touched | None:
        real = self._facts.resolve(path) if path.startswith("/") else path
        data = touched(DATA, max(self._paths.data(path, folder), self._paths.data(real, folder)))
        hooks = Hit.NONE if reads else max(self._paths.hooks(path), self._paths.hooks(real))
        if data is not None and (data.verdict is Verdict.DENY or hooks is not Hit.NAMED):
            return data
        return touched(HOOKS, hooks if hooks > Hit.STAR else Hit.NONE)


def _asks_people(source: PolicySource) -> bool:
    """Return whether somebody is asked: Claude Code's mode and Codelia's option turn each ask into a deny."""
    return source.options.get("mode") != "dontAsk" and source.options.get("supports_confirm") is not False


def guarded(policy: Policy, facts: FileFacts | None) -> Policy:
    """Return the policy, guarded if it is hardened. The data folders are the `own_folders` of the facts."""
    if policy.source.options.get("profile", "hardened") != "hardened":
        return policy
    folders = getattr(facts, "own_folders", ())
    return GuardingPolicy(policy, folders, facts or NoFacts())


def _lines(call: Call) -> Iterator[str]:
    """Yield the command lines of a call."""
    is_shell = {call.permission.lower(), (call.tool_name or "").lower()} & _SHELLS
    if is_shell:
        yield from call.patterns
    for name, value in members(call.input):
        if name in COMMANDS or (is_shell and name not in WRITTEN and isinstance(value, str)):
            if isinstance(value, str):
                yield value
            elif all(isinstance(one, str) for one in value):
                yield shlex.join(value)


def _paths(call: Call) -> Iterator[str]:
    """Yield the texts of a call that may be paths of files."""
    if call.permission.lower() not in _SHELLS:
        yield from (one for one in call.patterns if may_be_path(one))
    for name, value in members(call.input):
        for text in texts_in(value):
            if name not in WRITTEN and name not in COMMANDS and may_be_path(text):
                yield text.removeprefix("file://")
            yield from patched(text)
