"""The question of an agent, and the digest that binds an answer to it. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.core.call_digests import call_digest
from ledger.core.codec import canonical_json
from ledger.core.events import ToolRef
from ledger.core.operands import Operand
from ledger.core.policy import Call


class Question(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked question of an agent. `digest` is the SHA-256 over call, `always`, metadata and tool.

    `call.cwd` is the folder that the call would run in; see `in_folder` for a call without one. `operands` are the files
    that it executes or reads as a program; None if nobody looked for them. They are compared at the claim. `waits_ms` is
    the time for which the asker says that it waits. `request_id` is set for deciders.
    """

    call: Call
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    tool: ToolRef | None = None
    agent: str | None = None
    parent: str | None = None
    operands: tuple[Operand, ...] | None = None
    waits_ms: int | None = None
    digest: str = ""
    request_id: str = ""


def request_digest(question: Question, folder: str | None) -> str:
    """Return the digest (`call_digest`) of a question in `folder`.

    None, for a call whose folder is unknown, omits the member `cwd`.
    """
    call = question.call
    return call_digest(
        permission=call.permission,
        patterns=call.patterns,
        tool_name=call.tool_name,
        tool_input=call.input,
        cwd=folder,
        metadata=question.metadata,
        always=question.always,
        tool=question.tool,
        encode=canonical_json,
    )
