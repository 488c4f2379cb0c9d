"""The ledger's outcomes in OpenCode's terms: three words and a message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from workers.bridges.opencode.shapes import Answers, ReplyWord


class OpencodeVerdict(NamedTuple):
    """`reply` is `once` or `reject`, never `always`: OpenCode would remember it and not ask us again.

    With a message the agent's turn goes on, without one it ends. `because_of` is the request whose reply settled this
    one as well. `nobody_waits`: it was withdrawn because the call that asked is over. `answers` are to a question;
    `is_opencodes`: a rule lets OpenCode ask it, and it has no answer so far.
    """

    reply: ReplyWord
    message: str | None = None
    because_of: str | None = None
    nobody_waits: bool = False
    answers: Answers | None = None
    is_opencodes: bool = False


def verdict_of(row: Mapping[str, Any]) -> OpencodeVerdict:
    """Return the verdict of a settled request. Only the outcome `allowed`, with the input as asked, lets it run."""
    cause = row.get("cause")
    because_of = cause.get("request_id") if isinstance(cause, Mapping) else None
    if row.get("outcome") == "allowed":
        changed = row.get("updated_input")
        if changed is None:
            return OpencodeVerdict("once", None, because_of)
        # OpenCode cannot run another input than the one it asked for.
        wanted = json.dumps(changed, ensure_ascii=False)
        return OpencodeVerdict("reject", f"a person allowed this with another input; call the tool again with {wanted}")
    if row.get("cancel_cause") in ("asker_gave_up", "asker_died"):
        return OpencodeVerdict("reject", row.get("message"), nobody_waits=True)
    if row.get("outcome") == "corrected" and isinstance(row.get("feedback"), str):
        return OpencodeVerdict("reject", row["feedback"], because_of)
    if row.get("agent") == "stop":
        return OpencodeVerdict("reject", None, because_of)
    return OpencodeVerdict("reject", row.get("message") or f"the request was {row.get('outcome')}", because_of)
