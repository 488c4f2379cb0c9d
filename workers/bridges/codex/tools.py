"""Codex's commands and file changes as calls that the ledger judges, under OpenCode's names: bash, edit, apply_patch."""

from __future__ import annotations

import shlex
from typing import Any, Final

from workers.bridges.calls import FileChange, edit_of, exactly, script_of
from workers.bridges.session_ids import id_of
from workers.bridges.tool_calls import ToolCall

_COMMAND: Final = "command"
_DIFF_CHARS_MAX: Final = 60_000
_SHOWN: Final = (
    "reason",
    "commandActions",
    "networkApprovalContext",
    "additionalPermissions",
    "environmentId",
    "grantRoot",
    "kind",
)


def command_call(params: dict[str, Any], item: dict[str, Any], request_id: str, cwd: str | None) -> ToolCall:
    """Return a command as a call. Text for a running command and network access are asked about as such."""
    raw = next((one for one in (params.get("command"), item.get("command")) if isinstance(one, str) and one), "")
    script = script_of(raw)
    said = _said(params, script)
    return ToolCall(
        request_id=request_id,
        tool_name="bash",
        input={"command": script},
        metadata={**_shown(params), "command": raw},
        call_id=id_of(str(params["itemId"])),
        message_id=_turn(params),
        cwd=cwd,
        always=_amendment(params) if said is None else None,
        keeps_id=False,
        said=said,
    )


def _said(params: dict[str, Any], script: str) -> dict[str, Any] | None:
    kind = params.get("kind") if isinstance(params.get("kind"), str) else _COMMAND
    context = params.get("networkApprovalContext")
    if isinstance(context, dict) or not script:
        # Permission for a command does not include a network destination.
        host = context.get("host") if isinstance(context, dict) else None
        name = host if isinstance(host, str) and host else "*"
        return {"permission": "network", "patterns": [name], "always": list(exactly(name))}
    if kind != _COMMAND:
        return {"permission": str(kind), "patterns": [script], "always": list(exactly(script))}
    return None


def file_change_call(params: dict[str, Any], item: dict[str, Any], request_id: str, cwd: str | None) -> ToolCall:
    """Return the files of a patch as a call, each judged; the content is in the metadata."""
    found = item.get("changes")
    changes = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    metadata = {**_shown(params), "diff": "\n".join(_diff(one) for one in changes)[:_DIFF_CHARS_MAX]}
    judged = edit_of([_change(one) for one in changes]) if all(_is_whole(one) for one in changes) else None
    said: dict[str, Any] | None = None
    if judged is None:
        metadata["note"] = "the agent did not say which files it would change"
        judged, said = ("edit", {"files": []}), {"permission": "edit", "patterns": ["*"], "always": []}
    elif isinstance(params.get("grantRoot"), str):
        # Above this number of files: a whole folder, while the session lasts.
        root = f"{params['grantRoot'].rstrip('/')}/*"
        said = {"permission": "external_directory", "patterns": [root], "always": [root]}
    return ToolCall(
        request_id=request_id,
        tool_name=judged[0],
        input=judged[1],
        metadata=metadata,
        call_id=id_of(str(params["itemId"])),
        message_id=_turn(params),
        cwd=cwd,
        keeps_id=False,
        said=said,
    )


def _is_whole(change: dict[str, Any]) -> bool:
    return isinstance(change.get("path"), str) and bool(change["path"])


def _change(change: dict[str, Any]) -> FileChange:
    kind = change.get("kind")
    moved_to = kind.get("move_path") if isinstance(kind, dict) else None
    return FileChange(change["path"], moved_to if isinstance(moved_to, str) and moved_to else None)


def _turn(params: dict[str, Any]) -> str | None:
    turn = params.get("turnId")
    return id_of(turn) if isinstance(turn, str) and turn else None


def _amendment(params: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the prefix that Codex would remember, as the grant that an `always` makes instead."""
    words = params.get("proposedExecpolicyAmendment")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return None
    prefix = exactly(shlex.join(words))
    return (f"{prefix[0]} *",) if prefix else None


def _shown(params: dict[str, Any]) -> dict[str, Any]:
    return {name: params[name] for name in _SHOWN if params.get(name) is not None}


def _diff(change: dict[str, Any]) -> str:
    kind = change.get("kind")
    word = kind.get("type") if isinstance(kind, dict) else "change"
    return f"{word} {change.get('path')}\n{change.get('diff') or ''}"
