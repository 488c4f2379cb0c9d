"""The accepted forms of an answer, and its stored form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ledger.core.errors import InputError
from ledger.core.policy import ReplyKind

ReplyWord = Literal["once", "session", "always", "reject", "ALLOW_ONCE", "ALLOW_SESSION", "DENY"]
"""The words of an answer: ours, and BetCode's names of them."""

Answer = ReplyWord | Mapping[str, Any]
"""An answer: a word, or Codelia's `{ok, remember, reason}`."""

_NAMES: dict[str, ReplyKind] = {
    "once": "once",
    "session": "session",
    "always": "always",
    "reject": "reject",
    # betcode.md, PermissionResponse.decision
    "ALLOW_ONCE": "once",
    "ALLOW_SESSION": "session",
    "DENY": "reject",
}


def parse_reply(value: object) -> ReplyKind:
    """Parse `once`, `session`, `always` or `reject`, or BetCode's name of one. Raises InputError."""
    reply = _NAMES.get(value) if isinstance(value, str) else None
    if reply is None:
        raise InputError(f"`{value}` is not a reply; use `once`, `session`, `always` or `reject`")
    return reply


def parse_answer(value: object, message: str | None) -> tuple[ReplyKind, str | None]:
    """Parse an answer with its feedback, given as a word or as Codelia's confirm result. Raises InputError."""
    if isinstance(value, str) or not isinstance(value, Mapping):
        return parse_reply(value), message
    kind, reason = parse_confirm_result(value)
    if reason is not None and message is not None:
        raise InputError("a confirm result brings its own `reason`; give no message beside it")
    return kind, reason if message is None else message


def parse_confirm_result(value: Mapping[str, Any]) -> tuple[ReplyKind, str | None]:
    """Parse Codelia's `{ok, remember, reason}` (`codelia.md` section 8) as reply and feedback. Raises InputError."""
    ok, remember, reason = value.get("ok"), value.get("remember", False), value.get("reason")
    well_formed = isinstance(ok, bool) and isinstance(remember, bool) and isinstance(reason, str | None)
    if not well_formed or set(value) - {"ok", "remember", "reason"}:
        raise InputError("a confirm result is `{ok: true|false, remember?: true|false, reason?: text}`")
    if not ok:
        return "reject", reason
    return ("always" if remember else "once"), reason
