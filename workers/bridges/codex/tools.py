"""Codex's commands and file changes as calls that the ledger judges, under OpenCode's names: bash and edit."""

from __future__ import annotations

import os
import shlex
from typing import Any, Final

from workers.bridges.judging import ToolCall
from workers.bridges.naming import id_of

_SHELLS: Final = frozenset({"bash", "zsh", "sh"})
_SCRIPT_OPTIONS: Final = frozenset({"-c", "-lc"})
_DIFF_CHARS_MAX: Final = 60_000
_SHOWN: Final = ("reason", "commandActions", "networkApprovalContext", "environmentId", "grantRoot", "kind")


def command_call(params: dict[str, Any], item: dict[str, Any], key: str, cwd: str | None) -> ToolCall:
    """A command. One that is no plain command (text for a running one, a network access) goes by its kind."""
    raw = next((one for one in (params.get("command"), item.get("command")) if isinstance(one, str) and one), "")
    kind = params.get("kind") if isinstance(params.get("kind"), str) else "command"
    script = script_of(raw)
    said: dict[str, Any] | None = None
    if kind != "command" or not script:
        said = {"permission": "network" if not script else str(kind), "patterns": [script or _host(params)]}
    return ToolCall(
        request_id=_request_id(params, key),
        tool_name="bash",
        input={"command": script or raw},
        metadata=_metadata(params, command=raw),
        call_id=id_of(str(params["itemId"])),
        message_id=_turn(params),
        cwd=cwd,
        always=_amendment(params),
        keeps_id=False,
        said=said,
    )


def file_change_call(params: dict[str, Any], item: dict[str, Any], key: str, cwd: str | None) -> ToolCall:
    """The files of a patch: one as an edit of that file, several as one request with all of them."""
    found = item.get("changes")
    changes = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    paths = [str(one["path"]) for one in changes if isinstance(one.get("path"), str)]
    diff = "\n".join(_diff(one) for one in changes)[:_DIFF_CHARS_MAX]
    metadata = _metadata(params, diff=diff)
    said: dict[str, Any] | None = None
    tool_input: dict[str, Any] = {"filePath": paths[0] if paths else "", "diff": diff}
    if len(paths) != 1:
        # Without its `item/started` nothing is known of it: it is asked about as an edit of anything.
        said = {"permission": "edit", "patterns": [_relative(path, cwd) for path in paths] or ["*"]}
        tool_input = {"files": paths, "diff": diff}
        if not paths:
            metadata["note"] = "the agent did not say which files it would change"
    return ToolCall(
        request_id=_request_id(params, key),
        tool_name="edit",
        input=tool_input,
        metadata=metadata,
        call_id=id_of(str(params["itemId"])),
        message_id=_turn(params),
        cwd=cwd,
        keeps_id=False,
        said=said,
    )


def script_of(command: str) -> str:
    """What a shell is told to run: of `/bin/bash -lc 'git push'` the `git push`, else the command itself."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and os.path.basename(words[0]) in _SHELLS and words[1] in _SCRIPT_OPTIONS:  # noqa: PTH119
        return words[2]
    return command


def _request_id(params: dict[str, Any], key: str) -> str:
    approval = params.get("approvalId")
    return id_of(f"{approval if isinstance(approval, str) else params['itemId']}.{key.strip(chr(34))}")


def _turn(params: dict[str, Any]) -> str | None:
    turn = params.get("turnId")
    return id_of(turn) if isinstance(turn, str) and turn else None


def _amendment(params: dict[str, Any]) -> tuple[str, ...] | None:
    """The prefix that Codex would remember, as the grant that an `always` makes instead."""
    words = params.get("proposedExecpolicyAmendment")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return None
    return (f"{shlex.join(words)} *",)


def _metadata(params: dict[str, Any], **more: str) -> dict[str, Any]:
    return {**{name: params[name] for name in _SHOWN if params.get(name) is not None}, **more}


def _host(params: dict[str, Any]) -> str:
    context = params.get("networkApprovalContext")
    host = context.get("host") if isinstance(context, dict) else None
    return host if isinstance(host, str) and host else "*"


def _diff(change: dict[str, Any]) -> str:
    kind = change.get("kind")
    word = kind.get("type") if isinstance(kind, dict) else "change"
    return f"{word} {change.get('path')}\n{change.get('diff') or ''}"


def _relative(path: str, cwd: str | None) -> str:
    inside = cwd is not None and path.startswith(f"{cwd.rstrip('/')}/")
    return path[len(str(cwd).rstrip("/")) + 1 :] if inside else path
